"""CuPy itself, as far as it works without a GPU: compiling, arrays, names in use.

What needs a device is tested with a stand-in (fake_cupy.py); here stands what keeps the
stand-in to the original.
"""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import echobuf
import fake_cupy
from echobuf import transforms
from echobuf._engine.output import make_output_spec
from echobuf.cuda import codegen
from echobuf.cuda.arrays import DeviceOut, handle_of
from echobuf.spec import make_spec

cupy = pytest.importorskip("cupy")
compiler = cupy.cuda.compiler
ARCHITECTURES = ("75", "100")


def compile_for(monkeypatch, architecture, source):
    """Compile for `sm_<architecture>` as `cupy_modules` does.

    CuPy asks the device for its architecture, also where it is told.
    """
    monkeypatch.setattr(
        compiler,
        "_get_arch_for_options_for_nvrtc",
        lambda arch=None: (f"-arch=sm_{arch}", "cubin"),
    )
    cubin, _ = compiler.compile_using_nvrtc(
        source, codegen.draw_options(), architecture
    )
    return cubin


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_cupy_compiles_the_kernels(monkeypatch, architecture):
    cubin = compile_for(monkeypatch, architecture, codegen.draw_source())
    assert cubin[:4] == b"\x7fELF"
    for name in codegen.DRAW_KERNELS:
        assert name.encode() in cubin


def test_cupy_finds_the_headers_that_its_own_kernels_want(monkeypatch):
    """Of copies to strided arrays, which `out=` needs: without a toolkit, too."""
    taken = []
    monkeypatch.setattr(
        compiler, "_compile_module_with_cache", lambda *args, **_: taken.append(args)
    )
    copy = """
    extern "C" __global__ void copy(CArray<double, 2> to, CArray<double, 2> from) {
      CUPY_FOR(i, to.size()) { to[i] = from[i]; }
    }
    """
    cupy._core.core.compile_with_cache(copy)  # noqa: SLF001 - CuPy's
    ((source, options, *_),) = taken
    monkeypatch.setattr(
        compiler, "_get_arch_for_options_for_nvrtc", lambda _: ("-arch=sm_90", "cubin")
    )
    cubin, _ = compiler.compile_using_nvrtc(source, options)
    assert cubin[:4] == b"\x7fELF"


def test_cupy_raises_the_exception_that_is_caught(monkeypatch):
    with pytest.raises(compiler.CompileException, match="error: "):
        compile_for(monkeypatch, "90", "nonsense")


def test_cupy_compiles_chains_and_what_it_made_is_kept(monkeypatch, tmp_path):
    from echobuf.cuda import cupy_device

    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(
        compiler, "_get_arch_for_options_for_nvrtc", lambda _: ("-arch=sm_90", "cubin")
    )
    monkeypatch.setattr(
        cupy.cuda, "Device", lambda: SimpleNamespace(compute_capability="90")
    )
    spec = make_spec(echobuf.Field((32, 32, 3), np.uint8))
    jitter = transforms.RandomApply([transforms.ColorJitter(0.1, 0.1)])
    chain = [transforms.RandomCrop(20), jitter]
    plans = make_output_spec(spec, chain).plans
    source = codegen.stage_source(plan for _, plan in plans)
    programs, options = source.programs, source.options
    cubins = cupy_device.compiled(programs, options)
    assert len(cubins) == len(programs) > 1
    for place, (_, summing) in zip(source.places, source.entries, strict=True):
        assert cubins[place][:4] == b"\x7fELF"
        assert codegen.STAGE_MAKE.encode() in cubins[place]
        assert (codegen.STAGE_SUM.encode() in cubins[place]) is (summing is not None)
    monkeypatch.setattr(compiler, "compile_using_nvrtc", None)
    assert cupy_device.compiled(programs, options) == cubins
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(TypeError):  # not taken for what it was
        cupy_device.compiled(programs, options)


def test_arrays_of_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    memory = np.zeros(64, np.uint8)
    unowned = cupy.cuda.UnownedMemory(memory.ctypes.data, memory.size, memory, 0)
    pointer = cupy.cuda.MemoryPointer(unowned, 0)
    array = cupy.ndarray((4, 2), np.dtype(ml_dtypes.bfloat16), pointer)
    assert array.dtype == ml_dtypes.bfloat16
    field = echobuf.Field((2,), ml_dtypes.bfloat16)
    assert DeviceOut(0, make_spec(field), (4,)).find([array]) == ([pointer.ptr], True)


def test_every_kernel_is_asked_for():
    text = codegen.draw_source()
    assert text.count("__global__") == len(codegen.DRAW_KERNELS)
    assert all(f"{name}(" in text for name in codegen.DRAW_KERNELS)


def names(namespace, original, where="cupy"):
    """Names of the stand-in that its original lacks."""
    for name, value in vars(namespace).items():
        if not name.startswith("_") and not hasattr(original, name):
            yield f"{where}.{name}"
        elif type(value).__name__ == "SimpleNamespace":
            yield from names(value, getattr(original, name), f"{where}.{name}")


def test_the_stand_in_has_no_call_that_cupy_lacks():
    assert list(names(fake_cupy.cuda, cupy.cuda, "cupy.cuda")) == []
    for name in ("ndarray", "asarray", "empty", "__version__"):
        assert hasattr(cupy, name)
    assert issubclass(cupy.cuda.memory.OutOfMemoryError, MemoryError)
    assert issubclass(cupy.cuda.runtime.CUDARuntimeError, RuntimeError)
    for name in ("use", "__cuda_stream__", "from_external", "null", "ptds"):
        assert hasattr(cupy.cuda.Stream, name)


def test_default_streams_have_the_handles_that_are_taken_for_them():
    assert (cupy.cuda.Stream.null.ptr, cupy.cuda.Stream.ptds.ptr) == (0, 2)
    for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream.ptds):
        assert handle_of(stream, 1) == stream.ptr  # of any device


@pytest.fixture
def array():
    """Makes arrays of CuPy's whose memory is not on a device: never looked into."""
    memory = np.zeros(8192, np.uint8)

    def make(shape, dtype, offset=0):
        unowned = cupy.cuda.UnownedMemory(memory.ctypes.data, memory.size, memory, 0)
        pointer = cupy.cuda.MemoryPointer(unowned, 0) + offset
        return cupy.ndarray(shape, dtype, pointer)

    return make


@pytest.mark.parametrize("layout", ["rows", "columns", "every other", "none"])
def test_cupys_arrays_are_found_where_they_are(array, layout):
    shape = {"none": (4, 0)}.get(layout, (4, 3))
    out = DeviceOut(0, make_spec(echobuf.Field(shape[1:], np.float32)), (4,))
    leaf = {
        "columns": lambda: array((3, 4), np.float32, 512).T,
        "every other": lambda: array((8, 3), np.float32, 512)[::2],
    }.get(layout, lambda: array(shape, np.float32, 512))()
    for _ in range(2):  # the second time it is known
        addresses, contiguous = out.find([leaf])
        assert addresses == [leaf.data.ptr]
        assert contiguous is (layout in ("rows", "none"))


@pytest.mark.parametrize(
    ("shape", "dtype", "ordinal", "says"),
    [
        ((4, 2), np.float32, 0, "has shape"),
        ((), np.float32, 0, "has shape"),
        ((4, 3), np.float64, 0, "has dtype float64"),
        ((4, 3), np.float32, 1, "on cuda:0"),
    ],
)
def test_cupys_arrays_that_do_not_fit_are_refused(array, shape, dtype, ordinal, says):
    out = DeviceOut(ordinal, make_spec(echobuf.Field((3,), np.float32)), (4,))
    with pytest.raises(echobuf.SpecError, match=says):
        out.find([array(shape, dtype)])


def test_cupys_arrays_that_overlap_are_refused(array):
    spec = make_spec([echobuf.Field((3,), np.float32)] * 2)
    with pytest.raises(echobuf.SpecError, match="overlaps `out"):
        DeviceOut(0, spec, (4,)).find([array((4, 3), np.float32)] * 2)


def test_cupys_arrays_cannot_be_put_on_the_cpu(array):
    spec = echobuf.Field((3,), np.float32)
    with echobuf.EchoBuffer(spec, batch_size=1, window=2) as buffer:
        with pytest.raises(echobuf.SpecError, match=r"on the CPU.*`x.get\(\)`"):
            buffer.put(array((3,), np.float32))
        assert buffer.stats().fresh == 0


def test_importing_and_using_cupy_warns_of_nothing():
    code = (
        "import cupy, echobuf.cuda.cupy_arrays, echobuf.cuda.cupy_device\n"
        "echobuf.cuda.cupy_device.codegen.draw_source()\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_a_stream_that_somebody_else_owns_is_not_destroyed():
    """CuPy's streams destroy their handle with themselves, but not one of another."""
    from echobuf.cuda import cupy_arrays

    stream = cupy.cuda.Stream.__new__(cupy.cuda.Stream)
    cupy.cuda.stream._BaseStream.__init__(stream, 12345678, 0)  # noqa: SLF001 - CuPy's
    stream._foreign_stream_ref = cupy_arrays.Handle(12345678)  # noqa: SLF001 - CuPy's
    del stream  # a warning, which fails the test, if it calls the driver


def test_without_a_driver_cupy_is_not_asked():
    if cupy.cuda.is_available():
        pytest.skip("there is a driver")
    with pytest.raises(echobuf.DeviceError, match="CUDA"):
        echobuf.warmup("cuda")
