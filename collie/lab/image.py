"""The root disk of the lab machines, built once by mmdebstrap and cached by a digest of its recipe.

A cache entry appears by one rename, so it is complete.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from collie.errors import LabError
from collie.lab.host import Say, locked, private_directory, quiet, require_programs, run_logged, tail, user_directory

DEFAULT_RELEASE = "bookworm"
RELEASES = ("bookworm", "trixie")

PACKAGES = (
    "linux-image-amd64",
    "initramfs-tools",
    "kmod",
    "udev",
    "iproute2",
    "iputils-ping",
    "procps",
    "openssh-server",
    "rdma-core",
    "ibverbs-utils",
    "ibverbs-providers",
    "rdmacm-utils",
    "perftest",
    "python3-pyverbs",
    "ethtool",
    "numactl",
)

# With these modules alone the initrd is 5 MB instead of 35. An emulated processor unpacks it in a second.
INITRD_MODULES = ("virtio_pci", "virtio_blk", "ext4")

# Files that a machine without a screen does not need. They are half of the tree and slow the first build.
EXCLUDED = (
    "/usr/share/man/*",
    "/usr/share/doc/*",
    "/usr/share/locale/*",
    *(
        f"{prefix}/lib/modules/*/kernel/{folder}/*"
        for prefix in ("", "/usr")
        for folder in ("drivers/gpu", "drivers/media", "drivers/net/wireless", "sound")
    ),
)

SETUP_HOOK = (
    'mkdir -p "$1/etc/initramfs-tools/conf.d"; '
    'echo MODULES=list >"$1/etc/initramfs-tools/conf.d/collie"; '
    f'printf "%s\\n" {" ".join(INITRD_MODULES)} >"$1/etc/initramfs-tools/modules"'
)

# Fixed names in the build directory need no quoting. The disk has no journal, as every boot starts from the same
# snapshot. A machine can write 400 MiB. The file is sparse.
PACK_SCRIPT = (
    "set -e; mkdir tree; tar -xf tree.tar -C tree --exclude='./dev/*'; rm tree.tar; "
    "cp -L tree/boot/vmlinuz-* kernel; cp -L tree/boot/initrd.img-* initrd; rm tree/boot/initrd.img-*; "
    "cp init.sh tree/usr/local/sbin/collie-init; chmod 0755 tree/usr/local/sbin/collie-init; "
    'mkfs.ext4 -q -F -O ^has_journal -d tree disk "$(( $(du -sm tree | cut -f1) * 11 / 10 + 400 ))M"; '
    "rm -rf tree; chmod 0644 disk kernel initrd"
)

NEEDED_BYTES = 3 * 1024**3  # archive, tree and disk take 0.6 GB each, plus downloads and a reserve of half

BUILD_TIMEOUT_SECONDS = 600.0

MIRROR = re.compile(r"(https?|ftp|file|copy):/\S+\Z")


@dataclass(frozen=True, slots=True)
class Image:
    """A cache entry, whose name identifies it, with the raw ext4 file system `disk`, `kernel` and `initrd`."""

    release: str
    directory: Path


def default_cache_dir() -> Path:
    """Return `$COLLIE_CACHE_DIR`, else `$XDG_CACHE_HOME/collie/lab`, else the same under `~/.cache`."""
    own = os.environ.get("COLLIE_CACHE_DIR")
    return Path(own) if own else user_directory("XDG_CACHE_HOME", ".cache")


def _init_script() -> str:
    return resources.files("collie.lab").joinpath("init.sh").read_text(encoding="utf-8")


def image_key(release: str) -> str:
    """Return the name of a release's cache entry."""
    recipe = "\n".join((release, *PACKAGES, *EXCLUDED, SETUP_HOOK, PACK_SCRIPT, _init_script()))
    return f"{release}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def cached_image(release: str, cache_dir: Path) -> Image | None:
    """Return the image of a release, if cached."""
    directory = cache_dir / image_key(release)
    return Image(release, directory) if directory.is_dir() else None


def ensure_image(
    release: str = DEFAULT_RELEASE,
    *,
    cache_dir: Path | None = None,
    mirror: str | None = None,
    say: Say = quiet,
    needed_bytes: int = NEEDED_BYTES,
) -> Image:
    """Return the image of a release. Build it unless it is cached."""
    if release not in RELEASES:
        raise LabError(f"unknown release {release!r}; the lab knows {' and '.join(RELEASES)}")
    if mirror is not None and not MIRROR.match(mirror):
        raise LabError(f"--mirror {mirror!r} is no address; write it like https://mirror.example/debian")
    cache = private_directory(cache_dir or default_cache_dir())
    if image := cached_image(release, cache):
        return image
    require_programs("mmdebstrap", "mkfs.ext4", "tar", *(() if os.geteuid() == 0 else ("fakeroot",)))
    key = image_key(release)
    lock = cache / f"{key}.lock"
    with locked(lock, timeout_seconds=BUILD_TIMEOUT_SECONDS, what=f"the image {key}", say=say) as descriptor:
        if image := cached_image(release, cache):
            return image
        # This process holds the lock, so these are leftovers of killed processes.
        for stale in cache.glob(f".build-{key}-*"):
            shutil.rmtree(stale, ignore_errors=True)
        free_bytes = shutil.disk_usage(cache).free
        if free_bytes < needed_bytes:
            raise LabError(
                f"building the image needs {needed_bytes / 1024**3:.0f} GiB of disk; {cache} has "
                f"{free_bytes / 1024**3:.1f} GiB free; free some or set COLLIE_CACHE_DIR to another disk"
            )
        build = Path(tempfile.mkdtemp(prefix=f".build-{key}-", dir=cache))
        try:
            _build(release, mirror, build, descriptor, say)
            build.rename(cache / key)
        finally:
            shutil.rmtree(build, ignore_errors=True)
    return Image(release, cache / key)


def bootstrap_argv(release: str, mirror: str | None) -> tuple[str, ...]:
    """Return the mmdebstrap command that writes `tree.tar`."""
    return (
        "mmdebstrap",
        "--variant=minbase",
        f"--include={','.join(PACKAGES)}",
        f"--setup-hook={SETUP_HOOK}",
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in EXCLUDED),
        release,
        "tree.tar",
        *((mirror,) if mirror else ()),
    )


def _build(release: str, mirror: str | None, build: Path, lock: int, say: Say) -> None:
    started = time.monotonic()
    log = build / "build.log"
    (build / "init.sh").write_text(_init_script(), encoding="utf-8")
    say(f"building the {release} image, once; about a minute")

    def relay(line: str) -> None:
        if line.startswith("I: ") and "hook" not in line and not line.startswith("I: using "):
            say(f"image: {line[3:]}")

    # Users' PATH often lacks the directory of mkfs and chroot.
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', '/usr/bin:/bin')}:/usr/local/sbin:/usr/sbin:/sbin"}
    pack: tuple[str, ...] = ("sh", "-c", PACK_SCRIPT)
    if os.geteuid() != 0:
        pack = ("fakeroot", *pack)
    for argv in (bootstrap_argv(release, mirror), pack):
        if argv is pack:
            say("image: writing the disk")
        status = run_logged(
            argv,
            log=log,
            directory=build,
            timeout_seconds=BUILD_TIMEOUT_SECONDS - (time.monotonic() - started),
            on_line=relay,
            inherit=(lock,),
            environment=environment,
        )
        if status != 0:
            raise LabError(
                f"building the {release} image failed ({argv[0]} ended with status {status}); its last lines:\n"
                f"{tail(log)}\nif the mirror is the trouble, name another one with --mirror"
            )
    say(f"image: built in {time.monotonic() - started:.0f} s")
