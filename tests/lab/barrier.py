"""One side of the store-buffer litmus test: write one's own flag, pass a full barrier, read the other side's flag.

    python3 barrier.py MEMORY SIDE ROUNDS

The other side does the same at the same time, on memory that both map. With barriers that hold, at least one of the two
reads the other's new flag in every round. This is the handshake of a virtio ring: a driver adds a buffer and then reads
whether the device wants a kick, while the device asks for a kick and then reads whether there are buffers. Prints what
was read in each round.
"""

import ctypes
import mmap
import sys

# steps(mine, other, found, rounds, delay): x86-64, System V calling convention.
CODE = bytes.fromhex(
    "b801000000"  #     mov $1, %eax              round
    "8907"  #        1: mov %eax, (%rdi)          mine.round
    "3906"  #        2: cmp %eax, (%rsi)          until other.round is as far
    "72fc"  #           jb 2b
    "4189c1"  #         mov %eax, %r9d
    "4521c1"  #         and %r8d, %r9d            a delay that differs from round to round
    "41ffc9"  #      3: dec %r9d
    "79fb"  #           jns 3b
    "894740"  #         mov %eax, 64(%rdi)        mine.flag
    "f0834424fc00"  #    lock addl $0, -4(%rsp)    the barrier, as Linux' smp_mb()
    "448b4e40"  #       mov 64(%rsi), %r9d        other.flag
    "44890c82"  #       mov %r9d, (%rdx,%rax,4)   found[round]
    "ffc0"  #           inc %eax
    "39c8"  #           cmp %ecx, %eax
    "76d8"  #           jbe 1b
    "c3"  #             ret
)
PLACES = (0, 4096)
DELAYS = (0, 511)  # the second side waits as long as an emulated one may take


def main() -> None:
    """Take part."""
    path, side, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with open(path, "r+b", buffering=0) as file:
        shared = mmap.mmap(file.fileno(), 8192)
    program = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    program.write(CODE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(shared))
    found = (ctypes.c_uint32 * (rounds + 1))()
    entry = ctypes.addressof(ctypes.c_char.from_buffer(program))
    steps = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_uint32, ctypes.c_uint32)(entry)
    steps(base + PLACES[side], base + PLACES[1 - side], ctypes.addressof(found), rounds, DELAYS[side])
    print(*found[1:])


main()
