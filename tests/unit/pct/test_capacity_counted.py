"""What memory and GPUs a host has: as the site says, or as files of the kernel show."""

import pytest

from native.errors import UsageError
from pct.account import Gpu
from pct.host import capacity


@pytest.fixture
def root(tmp_path):
    def write(path, text=""):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    write("proc/meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB\n")
    return tmp_path, write


def test_memory_is_the_hosts_or_the_least_limit_of_the_control_groups_above(root):
    path, write = root
    assert capacity.memory(None, str(path)) == 16 << 20
    write("proc/self/cgroup", "0::/system.slice/pct.service\n")
    write("sys/fs/cgroup/system.slice/pct.service/memory.max", "max\n")
    assert capacity.memory(None, str(path)) == 16 << 20
    write("sys/fs/cgroup/system.slice/memory.max", f"{4 << 20}\n")
    assert capacity.memory(None, str(path)) == 4 << 20


def test_the_site_says_how_much_memory_jobs_may_have(root):
    sizes = {"512": 512 << 20, "4G": 4 << 30, "1.5GiB": 3 << 29, "0": 0, "7B": 7}
    for text, size in sizes.items():
        assert capacity.memory(text, str(root[0])) == size
    for text in ("", "G", "-1", "1..5G", "4X", "9" * 30):
        with pytest.raises(UsageError):
            capacity.memory(text, str(root[0]))


def test_gpus_are_counted_by_their_drivers_files(root):
    path, write = root
    assert capacity.gpus(None, str(path)) == ()
    write("sys/class/drm/card0/device/vendor", "0x1a03\n")  # the display of a server
    write("sys/class/drm/renderD128/device/vendor", "0x8086\n")
    assert capacity.gpus(None, str(path)) == (Gpu("0", "intel"),)
    for node, simds in (("0", 0), ("1", 256), ("2", 256)):
        nodes = "sys/class/kfd/kfd/topology/nodes"
        write(f"{nodes}/{node}/properties", f"cpu_cores_count 4\nsimd_count {simds}\n")
    assert capacity.gpus(None, str(path)) == (Gpu("0", "amd"), Gpu("1", "amd"))
    for name in ("nvidiactl", "nvidia-uvm", "nvidia10", "nvidia2"):
        write(f"dev/{name}")
    assert capacity.gpus(None, str(path)) == (Gpu("2", "nvidia"), Gpu("10", "nvidia"))


def test_the_site_says_which_gpus_there_are(root):
    path = str(root[0])
    assert capacity.gpus("2", path) == (Gpu("0"), Gpu("1"))
    assert capacity.gpus("a100:1,h100:1", path) == (Gpu("0", "a100"), Gpu("1", "h100"))
    assert capacity.gpus("0", path) == capacity.gpus("", path) == ()
    for text in ("a100", "a100:", "x y:2", "65", "-1"):
        with pytest.raises(UsageError):
            capacity.gpus(text, path)


def test_a_pct_that_is_a_rank_has_the_gpus_that_the_rank_was_given():
    assert capacity.of_rank("2:a100,3:") == (Gpu("2", "a100"), Gpu("3"))
    assert capacity.of_rank("") == ()
