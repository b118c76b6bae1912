"""Arrays on a device are told from the host's, and read where they lie."""

import sys
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import fake_dlpack
import fake_torch
from echobuf import SpecError, _core
from echobuf.device_arrays import is_on_device, place, read

ADDRESS, STREAM = 0x7F0000001000, 0xABC0


class OnDevice:
    """An array with a `__cuda_array_interface__` and nothing else."""

    def __init__(self, **parts):
        self.__cuda_array_interface__ = {
            "data": (ADDRESS, False),
            "shape": (4, 3),
            "typestr": "<f4",
            "version": 3,
            **parts,
        }


@pytest.fixture
def torch(cupy, monkeypatch):
    """The stand-in for torch, in torch's place."""
    monkeypatch.setitem(sys.modules, "torch", fake_torch)
    yield fake_torch
    fake_torch.cuda.forget()


def tensor_of(torch, shape, dtype, number=0):
    return torch.empty(shape, dtype=dtype, device=torch.device("cuda", number))


# ---- what is on a device


class Answers:
    """An object that has every attribute, none of which is what it should be."""

    def __getattr__(self, name):
        return name


class Counts:
    """An object that counts how often it is asked for what it has not."""

    asked = 0

    def __getattr__(self, name):
        type(self).asked += 1
        raise AttributeError(name)


def test_no_code_of_an_object_is_run():
    assert not is_on_device(Counts())
    assert Counts.asked == 0


class Raises:
    """An object that raises whenever it is asked."""

    def __getattr__(self, name):
        raise KeyError(name)

    def __dlpack_device__(self):
        raise RuntimeError("no")


HOST = [
    np.zeros(3),
    np.float32(1),
    np.zeros(2).view(np.recarray),
    *(1, 1.5, True, 2j, "text", b"bytes", None, [], (), {}),
    memoryview(b"abc"),
    object(),
    Answers(),
    Raises(),
]


@pytest.mark.parametrize("leaf", HOST, ids=lambda leaf: type(leaf).__name__)
def test_what_the_host_has_is_not_on_a_device(leaf):
    assert not is_on_device(leaf)


def test_arrays_of_frameworks_on_the_cpu_are_not():
    import torch

    jax = pytest.importorskip("jax")
    assert not is_on_device(torch.zeros(3))
    assert not is_on_device(torch.zeros(3, device="meta"))
    assert not is_on_device(jax.numpy.zeros(3))
    mesh = jax.make_mesh((2,), ("x",), devices=jax.devices("cpu")[:2])
    by_x = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    assert not is_on_device(jax.device_put(jax.numpy.zeros(4), by_x))
    jax.jit(lambda x: pytest.fail("on a device") if is_on_device(x) else x)(1.0)


def test_arrays_on_a_device_are(cupy, torch):
    assert is_on_device(cupy.empty((3,)))
    assert is_on_device(tensor_of(torch, (3,), torch.float32))
    assert is_on_device(OnDevice())


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (fake_dlpack.CUDA, True),
        (fake_dlpack.CUDA_MANAGED, True),
        (fake_dlpack.CUDA_HOST, False),
        (1, False),
        (10, False),  # ROCm
    ],
)
def test_dlpack_says_on_which_kind_of_device(kind, expected):
    assert is_on_device(fake_dlpack.Array(ADDRESS, (3,), device=(kind, 1))) == expected


def test_the_place_is_named(cupy, torch):
    assert place(tensor_of(torch, (1,), torch.uint8, 1)) == "cuda:1"
    with cupy.cuda.Device(1):
        assert place(cupy.empty((1,))) == "cuda:1"
    assert place(fake_dlpack.Array(ADDRESS, (1,), device=(2, 3))) == "cuda:3"
    leaf = OnDevice()
    assert place(leaf) == "a CUDA device"
    leaf.device = SimpleNamespace(index=2)
    assert place(leaf) == "cuda:2"


# ---- tensors of torch, and CuPy's arrays


def test_a_tensor_is_read_with_its_strides_in_bytes(torch):
    tensor = tensor_of(torch, (4, 6), torch.int16, 1)[1:, ::2]
    found = read(tensor, "x", STREAM)
    assert found == (
        *(tensor.data_ptr(), (3, 3), (12, 4), np.dtype("int16")),
        *(1, None, tensor, False),
    )


def test_a_dtype_of_torchs_is_the_one_of_ml_dtypes(torch):
    found = read(tensor_of(torch, (2,), torch.bfloat16), "x", STREAM)
    assert found.dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({"layout": "torch.sparse_coo"}, "is torch.sparse_coo; give `x.to_dense"),
        ({"layout": "torch.jagged", "is_nested": True}, "is a nested tensor. It is"),
        ({"requires_grad": True}, "requires a gradient, .* give `x.detach"),
        ({"is_conj": lambda: True}, "give `x.resolve_conj"),
        ({"is_neg": lambda: True}, "give `x.resolve_neg"),
        ({"dtype": fake_torch.dtype("float4_x2", "uint8")}, "yield its bytes"),
        ({"dtype": fake_torch.dtype("quint8", "uint8")}, "quint8, which NumPy lacks"),
    ],
)
def test_a_tensor_that_means_more_than_its_bytes_is_refused(torch, attributes, text):
    tensor = tensor_of(torch, (2,), torch.float32)
    for name, value in attributes.items():
        setattr(tensor, name, value)
    with pytest.raises(SpecError, match=f"`example.x` .*{text}"):
        read(tensor, "example.x", STREAM)


def test_a_tensor_without_memory_is_refused(torch):
    class Wrapper(torch.Tensor):
        def data_ptr(self):
            raise RuntimeError("no storage.")

    tensor = tensor_of(torch, (2,), torch.float32)
    wrapper = Wrapper(tensor.array, tensor.dtype)
    with pytest.raises(
        SpecError, match=r"`x` is a Wrapper on cuda:0.*no storage\. Give"
    ):
        read(wrapper, "x", STREAM)


def test_an_array_of_cupys_is_read(cupy):
    array = cupy.empty((4, 6), np.float64)[::-2]
    found = read(array, "x", STREAM)
    assert found == (
        *(array.data.ptr, (2, 6), (-96, 8), np.dtype("float64"), 0),
        *(None, array, True),
    )


# ---- `__cuda_array_interface__`


def test_an_interface_is_read():
    leaf = OnDevice()
    assert read(leaf, "x", STREAM) == (
        *(ADDRESS, (4, 3), None, np.dtype("float32"), None, None, leaf, True),
    )
    strided = read(OnDevice(strides=[24, 8]), "x", STREAM)
    assert strided.strides == (24, 8)


@pytest.mark.parametrize(
    ("said", "handle"), [(None, None), (1, 1), (2, 2), (STREAM, STREAM), (0, 1)]
)
def test_the_stream_of_an_interface_is_the_one_that_it_says(said, handle):
    assert read(OnDevice(stream=said), "x", 7).stream == handle


def test_an_interface_of_version_2_says_no_stream():
    assert read(OnDevice(version=2), "x", STREAM).stream is None


def test_a_dtype_that_a_string_cannot_say_is_the_one_of_the_leaf():
    leaf = OnDevice(typestr="|V2")
    leaf.dtype = np.dtype(ml_dtypes.bfloat16)
    assert read(leaf, "x", STREAM).dtype == ml_dtypes.bfloat16
    pair = np.dtype([("a", "i4"), ("b", "f4")])
    leaf = OnDevice(typestr="|V8")
    leaf.dtype = pair
    assert read(leaf, "x", STREAM).dtype == pair


def test_an_empty_array_may_have_no_address():
    for address in (0, None):
        leaf = OnDevice(data=(address, False), shape=(0, 3))
        assert read(leaf, "x", STREAM).address == 0


def test_a_masked_array_is_refused():
    with pytest.raises(SpecError, match=r"`x` is a masked array.*fill it"):
        read(OnDevice(mask=OnDevice()), "x", STREAM)


@pytest.mark.parametrize(
    "parts", [{"data": None}, {"shape": 3}, {"typestr": "?!"}, {"data": ()}]
)
def test_an_interface_that_is_none_is_refused(parts):
    with pytest.raises(SpecError, match="`x` is a OnDevice on a CUDA device that can"):
        read(OnDevice(**parts), "x", STREAM)


# ---- DLPack


@pytest.mark.parametrize("major", [0, 1])
def test_a_capsule_is_read_and_not_taken_over(major):
    leaf = fake_dlpack.Array(
        *(ADDRESS, (4, 3)), strides=(6, 2), offset=64, device=(2, 1), major=major
    )
    found = read(leaf, "x", STREAM)
    assert found[:6] == (
        *(ADDRESS + 64, (4, 3), (24, 8), np.dtype("float32"), 1, None),
    )
    assert found.reused
    assert leaf.streams == [STREAM]
    assert not leaf.deleted
    del found
    assert leaf.deleted == 1


def test_the_legacy_stream_is_handed_over_as_1():
    leaf = fake_dlpack.Array(ADDRESS, (4,))
    assert read(leaf, "x", 0).strides is None
    assert leaf.streams == [1]


@pytest.mark.parametrize(
    ("code", "bits", "expected"),
    [
        (0, 8, "int8"),
        (1, 64, "uint64"),
        (2, 16, "float16"),
        (4, 16, ml_dtypes.bfloat16),
        (5, 128, "complex128"),
        (6, 8, "bool"),
        (10, 8, ml_dtypes.float8_e4m3fn),
    ],
)
def test_a_capsule_says_the_dtype(code, bits, expected):
    leaf = fake_dlpack.Array(ADDRESS, (4,), code, bits)
    assert read(leaf, "x", STREAM).dtype == np.dtype(expected)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"bits": 4, "code": 0}, "has dtype an unknown one, which NumPy lacks"),
        ({"lanes": 4}, "has dtype an unknown one, which NumPy lacks"),
        ({"code": 3, "bits": 64}, "has dtype an unknown one, which NumPy lacks"),
        ({"major": 2}, "on cuda:0 that cannot be read: it is of version 2 of DLPack"),
    ],
)
def test_a_capsule_that_cannot_be_stored_is_refused(options, text):
    with pytest.raises(SpecError, match=f"`x` .*{text}"):
        read(fake_dlpack.Array(ADDRESS, (4,), **options), "x", STREAM)


def test_a_library_that_refuses_is_quoted():
    class Refuses(fake_dlpack.Array):
        def __dlpack__(self, **options):
            raise BufferError("only for unsharded arrays.")

    with pytest.raises(SpecError, match=r"only for unsharded arrays\. Give a dense"):
        read(Refuses(ADDRESS, (4,)), "x", STREAM)


def test_only_a_capsule_of_dlpack_is_read():
    used = np.zeros(2).__dlpack__()
    assert _core.read_dlpack(used)[1:4] == ((2,), (8,), "float64")
    np.from_dlpack(
        SimpleNamespace(
            __dlpack__=lambda **_: used,
            __dlpack_device__=lambda: (1, 0),
        )
    )
    for other in (used, 1, None):
        with pytest.raises(ValueError, match="no capsule of DLPack that is still"):
            _core.read_dlpack(other)


def test_arrays_of_jax_are_read_by_dlpack(monkeypatch):
    """Their interface would not wait for their values."""

    class JaxArray(fake_dlpack.Array, OnDevice):
        def devices(self):
            return [SimpleNamespace(platform="gpu")]

    jax = SimpleNamespace(Array=JaxArray)
    monkeypatch.setitem(sys.modules, "jax", jax)
    leaf = JaxArray(ADDRESS, (4,))
    OnDevice.__init__(leaf)
    assert is_on_device(leaf)
    assert read(leaf, "x", STREAM).shape == (4,)

    def refuse():
        raise BufferError("__dlpack__ only supported for unsharded arrays.")

    monkeypatch.setattr(JaxArray, "__dlpack_device__", lambda self: refuse())
    assert is_on_device(leaf)
    assert place(leaf) == "a CUDA device"
