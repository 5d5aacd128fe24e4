"""The machine on which times are taken: what they depend on, and whether it has anything else to do."""

import os
import platform
import re
import time
from importlib import metadata
from pathlib import Path

import numpy as np

INFO = Path("/proc/cpuinfo")  # Linux
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")  # Linux
LETTER = {"Data": "d", "Instruction": "i"}  # of a cache; none for one that holds both
VECTORS = ("avx512f", "avx2", "sse4_2")
IDLE = 0.3
"""The load average of a minute above which a race does not begin."""


def processor(info=None):
    """(model, widest vector instructions) of the processor, from the text of /proc/cpuinfo.

    Where the system does not tell them, what it calls the processor, and "unknown".
    """
    if info is None:
        info = INFO.read_text() if INFO.exists() else ""
    names = re.findall(r"^model name\s*: (.*)$", info, re.M)
    flags = set(" ".join(re.findall(r"^flags\s*: (.*)$", info, re.M)).split())
    vectors = next((name for name in VECTORS if name in flags), "unknown")
    if vectors == "unknown" and platform.machine() in ("aarch64", "arm64"):
        vectors = "neon"
    return names[0] if names else platform.processor() or platform.machine(), vectors


def caches(folder=CACHES):
    """Level, kind and size of each cache of the first core: "L1d 48K, L1i 64K, L2 2048K", or "unknown"."""
    found = []
    for place in sorted(folder.glob("index*")):
        level, kind, size = ((place / name).read_text().strip() for name in ("level", "type", "size"))
        found.append(f"L{level}{LETTER.get(kind, '')} {size}")
    return ", ".join(found) or "unknown"


def blas_of_torch(text):
    """Name and version of the BLAS in what torch.__config__.show() says."""
    mkl = re.search(r"Math Kernel Library Version ([\w.]+)", text)
    other = re.search(r"OpenBLAS\D{0,10}([\d.]+)", text)
    named = re.search(r"BLAS_INFO=(\w+)", text)
    if mkl:
        return f"MKL {mkl[1]}"
    if other:
        return f"OpenBLAS {other[1]}"
    return {"open": "OpenBLAS"}.get(named[1], named[1]) if named else "unknown"


def machine():
    """What the times depend on: {what: value}."""
    import torch

    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    model, vectors = processor()
    about = {"processor": model, "vectors": vectors, "cores": os.cpu_count(), "caches": caches()}
    about |= {"system": f"{platform.system()} {platform.machine()}", "Python": platform.python_version()}
    about |= {"NumPy": f"{np.__version__} ({blas['name']} {blas['version']})"}
    about |= {"PyTorch": f"{torch.__version__} ({blas_of_torch(torch.__config__.show())})"}
    about |= {"numba": metadata.version("numba"), "load before": round(os.getloadavg()[0], 2)}
    return about | ({"CUDA": torch.cuda.get_device_name()} if torch.cuda.is_available() else {})


def wait_until_idle(patience, load=os.getloadavg, sleep=time.sleep, say=print, every=10):
    """Wait, and say so, while the load is above IDLE, for at most `patience` seconds. Returns the load."""
    waited = 0
    while (now := load()[0]) > IDLE and waited < patience:
        pause = min(every, patience - waited)
        say(f"load {now:.2f}, wanted at most {IDLE}: waiting, {patience - waited:.0f} seconds more at most")
        sleep(pause)
        waited += pause
    return now
