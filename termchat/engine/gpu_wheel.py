"""Which build of llama.cpp would use this machine's GPU; asked only where the installed build sees none."""

from __future__ import annotations

import ctypes
import platform
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from termchat.engine.port import Remark

_CUDA = (13020, 13000, 12050, 12040, 12030, 12020, 12010, 11080)
"""The CUDA versions there are wheels for, as the driver numbers them: 12.4 is 12040."""
_INDEX = "https://abetlen.github.io/llama-cpp-python/whl/"
_COMMAND = (
    "pip install --force-reinstall --no-deps --only-binary :all: 'llama-cpp-python>=0.3.36,<0.4' --extra-index-url "
)


class Hardware(NamedTuple):
    """A GPU found without llama.cpp. `cuda` is the newest version that the driver can run, 0 if unknown."""

    name: str
    cuda: int = 0


def find_gpu(root: Path = Path("/")) -> Hardware | None:
    """Find this machine's GPU, if wheels exist for it; `root` is the parent of /proc and /dev."""
    if sys.platform == "darwin":
        return Hardware("Apple GPU") if platform.machine() == "arm64" else None
    if (root / "proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi"):
        return Hardware("NVIDIA GPU", _driver_cuda())
    if (root / "dev/kfd").exists():
        return Hardware("AMD GPU")
    return None


def other_wheel(gpu: Hardware) -> Remark:
    """Return how to install the build for a GPU."""
    index = {"Apple GPU": "metal", "AMD GPU": "rocm72"}.get(gpu.name) or _cuda_index(gpu.cuda)
    return Remark(
        f"this build of llama.cpp does not use this machine's {gpu.name}",
        f"{_COMMAND}{_INDEX}{index}   (or set gpu_layers = 0 to stay on the CPU)",
    )


def _cuda_index(driver: int) -> str:
    """Return the newest version that the driver can run; where it does not say, one that most drivers can."""
    version = next((version for version in _CUDA if version <= driver), 12040 if not driver else _CUDA[-1])
    return f"cu{version // 1000}{version % 1000 // 10}"


def _driver_cuda() -> int:
    version = ctypes.c_int()
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        return version.value if driver.cuDriverGetVersion(ctypes.byref(version)) == 0 else 0
    except (OSError, AttributeError):
        return 0
