"""The command line by real use: usage, help, doctor, interruptions."""

import os
import re
import subprocess
import sys

import pytest

import echobuf
from echobuf.cli import doctor, selftest

COMMANDS = ("analyze", "bench", "demo", "doctor", "cmake-dir", "serve", "status")


def python(*arguments, **options):
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "required"),
        (("bogus",), "bogus"),
        (("bench", "nope"), "nope"),
        (("analyze",), "FILE:NAME"),
        (("serve",), "serve"),
        (("two\nlines",), "invalid choice"),
        (("--bogus",), "COMMAND"),
        (("doctor", "--bogus"), "--bogus"),
        (("demo", "extra"), "extra"),
        (("demo", "--bogus\nline"), "--bogus line"),
        (("demo", "--targ", "0.5"), "--targ"),
        (("demo", "--out"), "expected one argument"),
        (("doctor", "extra"), "extra"),
        (("cmake-dir", "extra"), "extra"),
    ],
)
def test_bad_usage_is_one_line_and_code_2(called, arguments, reason):
    code, out, err = called(*arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert reason in err
    assert err.startswith("echobuf")


@pytest.mark.parametrize("arguments", [(), *((name,) for name in COMMANDS)])
def test_help(called, arguments):
    code, out, err = called(*arguments, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(" ".join(("usage: echobuf", *arguments)))


def test_help_lists_what_is_there_and_nothing_else(called):
    _, out, _ = called("--help")
    listed = out.partition("commands:")[2]
    assert all(name in listed for name in COMMANDS)
    assert len(re.findall(r"^    [a-z-]+", listed, re.MULTILINE)) == len(COMMANDS)


def test_help_of_the_demo_states_units_and_defaults(called):
    _, out, _ = called("demo", "--help")
    options = ("--seed", "--target", "--bandwidth", "--out", "--no-progress")
    assert all(option in out for option in options)
    assert "kB/s" in out
    assert "0.95" in out


def test_version(called):
    assert called("--version") == (0, f"echobuf {echobuf.__version__}\n", "")


def test_run_as_a_module(tmp_path):
    done = python("-m", "echobuf", "--version", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout == f"echobuf {echobuf.__version__}\n"
    assert python("-m", "echobuf", "bogus", cwd=tmp_path).returncode == 2


def test_heavy_packages_are_imported_by_the_demo_only(tmp_path):
    program = (
        "import sys; from echobuf.cli.main import main\n"
        "main(['demo', '--help']); main(['cmake-dir'])\n"
        "heavy = {'torch', 'rich', 'matplotlib', 'PIL', 'sklearn', 'jax', 'cupy'}\n"
        "sys.exit(sorted(heavy & set(sys.modules)) or 0)"
    )
    done = python("-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("module", "name"), [("torch", "torch"), ("PIL", "Pillow"), ("rich", "rich")]
)
def test_a_missing_package_is_one_line(called, monkeypatch, tmp_path, module, name):
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    code, out, err = called("demo", "--out", str(tmp_path / "new"))
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert name in err
    assert "pip install 'data-echoing[demo]'" in err
    assert not (tmp_path / "new").exists()


def test_cmake_dir(called, monkeypatch, tmp_path):
    monkeypatch.setattr(echobuf, "__file__", str(tmp_path / "__init__.py"))
    code, out, err = called("cmake-dir")
    assert (code, out) == (1, "")
    assert str(tmp_path / "cmake") in err
    (tmp_path / "cmake").mkdir()
    assert called("cmake-dir") == (0, f"{tmp_path / 'cmake'}\n", "")


def test_a_reader_that_leaves_is_no_traceback(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as output:
        done = subprocess.run(
            [sys.executable, "-m", "echobuf", "cmake-dir"],
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
            cwd=tmp_path,
        )
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_ctrl_c_is_code_130(called, monkeypatch):
    def interrupted(options):
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor, "run", interrupted)
    assert called("doctor") == (130, "", "echobuf: interrupted\n")


def test_doctor_finds_this_installation_well(called):
    code, out, err = called("doctor")
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert ["echobuf", echobuf.__version__] in lines
    assert sum(line[:1] == ["OK"] for line in lines) == len(selftest.CHECKS)
    assert not any(line[:1] == ["FAIL"] for line in lines)
    for name in ("Python", "numpy", "optree", "Instructions", "CUDA driver", "CuPy"):
        assert name in out
    assert "examples/s" in out


@pytest.mark.parametrize("error", [selftest.CheckError, TimeoutError])
def test_doctor_fails_when_a_check_fails(called, monkeypatch, error):
    def broken():
        raise error("what was seen")

    checks = (selftest.Check("good", lambda: "fine"), selftest.Check("bad", broken))
    monkeypatch.setattr(selftest, "CHECKS", checks)
    code, out, _ = called("doctor")
    good, bad = out.splitlines()[-2:]
    assert code == 1
    assert good.split()[:2] == ["OK", "good"]
    assert bad.split()[:2] == ["FAIL", "bad"]
    assert "what was seen" in bad


def test_doctor_without_a_driver(monkeypatch):
    monkeypatch.setattr(doctor, "_LIBRARY", "libechobuf-is-not-there.so.1")
    monkeypatch.setattr(doctor, "_installed", lambda name: None)
    devices = dict(doctor.devices())
    assert "cannot be loaded" in devices["CUDA driver"]
    assert "nor needed" in devices["CuPy"]


@pytest.mark.parametrize(
    ("driver", "extra"),
    [(12040, "data-echoing[cuda12]"), (13000, "data-echoing[cuda13]")],
)
def test_doctor_says_which_cupy_to_install(monkeypatch, driver, extra):
    monkeypatch.setattr(doctor, "_installed", lambda name: None)
    assert f"pip install '{extra}'" in doctor.cupy_version(driver)


def test_self_test_sees_a_damaged_record():
    batch = selftest.make_records(selftest.np.arange(5, dtype="uint64"))
    assert selftest.checked_ids(batch).tolist() == [0, 1, 2, 3, 4]
    batch["words"][3, 7] += 1
    with pytest.raises(selftest.CheckError, match="damaged"):
        selftest.checked_ids(batch)
