"""What goes to a GPU, what is said where not all fits, and which build the machine's GPU wants."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from termchat.engine import gpu_wheel
from termchat.engine.llama import model_loading, model_session, offload
from termchat.engine.llama.cache import Cache
from termchat.engine.llama.model import Model
from termchat.engine.port import Device, EngineError, Load, Loaded, ModelSpec, Probe, Probed
from tests.engine.conftest import Driver

GB = 1 << 30


def gpu(free: int = 0, description: str = "NVIDIA H200") -> Device:
    return Device("CUDA0", description, "gpu", free, free)


def test_fewer_layers_are_tried_by_what_fits_and_then_none() -> None:
    tries = model_loading.list_fewer(33, need=16 * GB, free=8 * GB)
    assert tries[0] == 14  # 85 % of half of them
    assert tries == sorted(tries, reverse=True)
    assert tries[-1] == 0
    assert model_loading.list_fewer(33, need=4 * GB, free=24 * GB)[0] == 32  # all of them were tried already
    assert model_loading.list_fewer(33, need=0, free=0)[0] == 16
    assert model_loading.list_fewer(1, need=GB, free=GB) == [0]


def test_the_layers_are_those_that_llama_cpp_says() -> None:
    said = ["using device CUDA0 (NVIDIA H200)", "load_tensors: offloaded 20/31 layers to GPU"]
    assert offload.count_offloaded(said) == 20
    assert offload.count_offloaded(["load_tensors: offloading output layer to GPU"]) is None


def test_devices_have_their_names() -> None:
    assert offload.name_devices([gpu(), gpu()]) == "NVIDIA H200 ×2"
    assert offload.name_devices([gpu(), gpu(description="RTX 4090")]) == "NVIDIA H200, RTX 4090"


@pytest.fixture
def small_gpu(monkeypatch: pytest.MonkeyPatch, model_path: Path) -> list[int]:
    """A GPU on which at most ten layers fit, as llama.cpp would tell; what was tried."""
    tried: list[int] = []
    need = model_path.stat().st_size

    def load(spec: ModelSpec, *more: object) -> tuple[Model, Cache]:
        tried.append(spec.gpu_layers)
        if not 0 <= spec.gpu_layers <= 10:
            raise EngineError("model", "x.gguf could not be loaded: unable to allocate CUDA0 buffer")
        return opened(spec, *more)  # type: ignore[arg-type]

    opened = model_loading._open_once
    monkeypatch.setattr(model_loading, "_open_once", load)
    monkeypatch.setattr(offload, "list_offloading", lambda _main=-1: [gpu(need // 2)])
    return tried


def test_what_does_not_fit_is_tried_with_fewer_layers_and_said(small_gpu: list[int], model_path: Path) -> None:
    made = model_session.ModelSession(ModelSpec(str(model_path), "x", context=64, threads=1, layers=30), lambda _: None)
    remarks = made.build_info().remarks
    made.close()
    assert small_gpu == [-1, 13, 8]
    assert [remark.message for remark in remarks] == ["8 of 31 layers fit on NVIDIA H200; the rest runs on the CPU"]


def test_layers_that_a_person_asked_for_are_not_fewer(small_gpu: list[int], model_path: Path) -> None:
    with pytest.raises(EngineError):
        model_session.ModelSession(
            ModelSpec(str(model_path), "x", context=64, gpu_layers=20, layers=30), lambda _: None
        )
    assert small_gpu == [20]


def test_a_broken_file_is_not_tried_with_fewer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offload, "list_offloading", lambda _main=-1: [gpu(GB)])
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF\x03\0\0\0nothing")
    with pytest.raises(EngineError):
        model_session.ModelSession(ModelSpec(str(broken), "x", layers=30), lambda _: None)


# --- the build -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("driver", "index"), [(13020, "cu132"), (12080, "cu125"), (12040, "cu124"), (11080, "cu118"), (0, "cu124")]
)
def test_the_wheel_is_one_that_the_driver_can_run(driver: int, index: str) -> None:
    hint = gpu_wheel.other_wheel(gpu_wheel.Hardware("NVIDIA GPU", driver)).hint
    assert f"--extra-index-url https://abetlen.github.io/llama-cpp-python/whl/{index} " in hint


@pytest.mark.parametrize(
    ("file", "name", "index"),
    [("proc/driver/nvidia/version", "NVIDIA GPU", "whl/cu"), ("dev/kfd", "AMD GPU", "whl/rocm72")],
)
def test_a_gpu_is_found_without_llama_cpp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, name: str, index: str
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert gpu_wheel.find_gpu(tmp_path) is None
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text("")
    found = gpu_wheel.find_gpu(tmp_path)
    assert found is not None
    assert found.name == name
    assert index in gpu_wheel.other_wheel(found).hint


def test_a_cpu_build_says_so_unless_a_person_wants_the_cpu(monkeypatch: pytest.MonkeyPatch, model_path: Path) -> None:
    monkeypatch.setattr(gpu_wheel, "find_gpu", lambda: gpu_wheel.Hardware("NVIDIA GPU", 12040))
    for layers, said in (
        (-1, ["this build of llama.cpp does not use this machine's NVIDIA GPU"]),
        (0, []),
    ):
        made = model_session.ModelSession(
            ModelSpec(str(model_path), "x", context=64, gpu_layers=layers), lambda _: None
        )
        assert [remark.message for remark in made.build_info().remarks] == said
        made.close()


# --- the worker ------------------------------------------------------------------------------------------------------


def test_the_engine_tells_what_it_is_built_of_without_a_model() -> None:
    driver = Driver(None)
    probed = driver.ask(Probe(), Probed)[-1]
    driver.engine.close()
    assert isinstance(probed, Probed)
    assert probed.library.startswith("0.3.")
    assert probed.backends["CPU"]
    assert [device.total > 0 for device in probed.devices if device.kind == "cpu"] == [True]


@pytest.mark.parametrize("how", [{"mmap": "off"}, {"mmap": "on"}, {"mlock": True}, {"mmap": "off", "mlock": True}])
def test_a_model_is_loaded_in_every_way(model_path: Path, how: dict[str, object]) -> None:
    driver = Driver(None)
    loaded = driver.ask(Load(ModelSpec(str(model_path), "x", context=64, **how)), Loaded)[-1]  # type: ignore[arg-type]
    assert isinstance(loaded, Loaded)
    pages = Path(f"/proc/{driver.engine.pid}/maps").read_text()
    assert (model_path.name in pages) == (how.get("mmap", "auto") != "off")
    driver.engine.close()
