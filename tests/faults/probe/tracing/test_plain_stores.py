"""Stores that the recorder executes match the processor; the processor executes the rest."""

import platform
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.probe.steps import as_short_texts, steps_of
from tests.faults.probe.tracing.programs import traced
from tornlog.faults.probe.tracing import plain_stores
from tornlog.faults.probe.tracing.store_instructions import plain_store

PLAIN = {
    "mov [rdi], sil": "408837",
    "mov [rdi], dh": "8837",
    "mov [rdi+2], si": "66897702",
    "mov [rdi+rdx*4], esi": "893497",
    "mov [rdi+0x800], rsi": "4889b700080000",
    "mov [rdi+rdx*8+0x11], rsi": "488974d711",
    "mov [rdi+rdx], r8": "4c890417",
    "mov [r9], rsi": "498931",
    "mov [r12+r13*2], rsi": "4b89346c",
    "mov [r13], rsi": "49897500",
    "mov [rsp+r10], rsi": "4a893414",
    "mov byte [rdi], 0x81": "c60781",
    "mov word [rdi], 0x8182": "66c7078281",
    "mov dword [rdi], 0x81828384": "c70784838281",
    "mov qword [rdi], -2": "48c707feffffff",
    "mov ds:[rdi], rsi": "3e488937",
    "movnti [rdi], rsi": "480fc337",
    "movnti [rdi], esi": "0fc337",
    "movups [rdi+1], xmm0": "0f114701",
    "movupd [rdi+1], xmm1": "660f114f01",
    "movaps [rdi], xmm9": "440f290f",
    "movapd [rdi], xmm1": "660f290f",
    "movntps [rdi], xmm1": "0f2b0f",
    "movdqa [rdi], xmm1": "660f7f0f",
    "movdqu [rdi+3], xmm15": "f3440f7f7f03",
    "movntdq [rdi], xmm1": "660fe70f",
    "movss [rdi], xmm1": "f30f110f",
    "movsd [rdi], xmm1": "f20f110f",
    "movq [rdi], xmm1": "660fd60f",
    "movd [rdi], xmm1": "660f7e0f",
    "movq [rdi], xmm1, by a wide movd": "66480f7e0f",
    "movlps [rdi], xmm1": "0f130f",
    "movhps [rdi], xmm1": "0f170f",
    "vmovdqu [rdi+5], ymm0": "c5fe7f4705",
    "vmovdqu [r9+5], ymm12": "c4417e7f6105",
    "vmovdqa [rdi], ymm1": "c5fd7f0f",
    "vmovups [rdi+rdx], ymm1": "c5fc110c17",
    "vmovups [rdi+rdx], xmm1": "c5f8110c17",
    "vmovntdq [rdi], ymm1": "c5fde70f",
    "vmovss [rdi], xmm1": "c5fa110f",
    "vmovq [rdi], xmm1": "c5f9d60f",
    "vmovd [rdi], xmm1": "c5f97e0f",
    "vmovhps [rdi], xmm1": "c5f8170f",
    "mov [rip+disp], rsi": "488935",
    "mov word [rip+disp], 0x1234": "66c705",
}
"""Output of an assembler. The last two lack a displacement, which depends on their address."""
OTHERS = {
    "add [rdi], rsi": "480137",
    "xchg [rdi], rsi": "488737",
    "inc byte [rdi]": "fe07",
    "sete [rdi]": "0f9407",
    "xrelease mov [rdi], sil": "f3408837",
    "vextractf128 [rdi], ymm0, 1": "c4e37d190701",
}
UNTRIED = {
    "lock cmpxchg [rdi], rsi": "f0480fb137",
    "stosq": "48ab",
    "push [rdi]": "ff37",
    "mov fs:[rdi], rsi": "64488937",
    "mov [edi], rsi": "67488937",
    "mov rsi, [rdi]": "488b37",
    "mov rdi, rsi": "4889f7",
    "movups xmm0, [rdi]": "0f1007",
    "movq [rdi], mm0": "0f7f07",
    "vmovdqu64 [rdi], zmm0": "62f1fe487f07",
    "vmaskmovps [rdi], ymm0, ymm1": "c4e27d2e0f",
    "nothing": "",
    "half of one": "4889b7",
}
_RUN = """
f = file(content=bytes(16384))
m = mmap.mmap(f, 16384)
code = mmap.mmap(-1, 1 << 15, prot=7)
begin = bytes.fromhex(
    "41544155"  # push r12; push r13
    "c5fe6f01c5fe6f4920c57e6f4940c57e6f6160c57e6fb980000000"  # vmovdqu ymm0 ymm1 ymm9 ymm12 ymm15, [rcx...]
    "4989f94989fd41bc400000004929fc4989fa4929e2"  # r9 = r13 = rdi; r12 = 64 - rdi; r10 = rdi - rsp
)
end = bytes.fromhex("c5f877415d415cc3")  # vzeroupper; pop r13; pop r12; ret
pattern = ctypes.create_string_buffer(160)
at = 0
def run(number, instruction, place):
    global at
    if instruction in ("488935", "66c705"):
        behind = address(code) + at + len(begin) + (7 if instruction == "488935" else 9)
        instruction += (place - behind).to_bytes(4, "little", signed=True).hex()
        instruction += "3412" if instruction.startswith("66c7") else ""
    made = begin + bytes.fromhex(instruction) + end
    code[at:at + len(made)] = made
    for i in range(160):
        pattern[i] = (number * 37 + i * 11 + 1) % 256
    value = (number + 3) * 0x123456789ABCDEF % 2**63
    ctypes.CFUNCTYPE(None, long, long, long, long, long)(address(code) + at)(
        place, value, 4 + number % 3 * 256, ctypes.addressof(pattern), value // 3)
    at += len(made)
for number, instruction in enumerate(PLAIN):
    run(number, instruction, address(m, 64))
for number, instruction in enumerate(OTHERS):
    run(number, instruction, address(m, 4096 + 128))
"""


@pytest.mark.parametrize("code", PLAIN.values(), ids=PLAIN)
def test_a_plain_store_instruction_is_decoded(code: str) -> None:
    lacks = {"488935": "00010000", "66c705": "000100003412"}.get(code, "")
    instruction = bytes.fromhex(code + lacks)

    found = plain_store(instruction + bytes(16 - len(instruction)))

    assert found is not None
    assert found.length == len(instruction)


@pytest.mark.parametrize("code", [*OTHERS.values(), *UNTRIED.values()], ids=[*OTHERS, *UNTRIED])
def test_other_instructions_are_not_decoded_as_plain_stores(code: str) -> None:
    assert plain_store(bytes.fromhex(code)) is None


def test_a_store_address_without_a_base_register_is_index_plus_displacement() -> None:
    found = plain_store(bytes.fromhex("488934d5f0ffffff"))  # mov [rdx*8-16], rsi

    assert found is not None
    assert found.address({12: 5}.__getitem__) == 24
    assert found.address({12: 1}.__getitem__) == 2**64 - 8


@pytest.fixture
def stepped(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that makes the processor execute every store."""
    return lambda: monkeypatch.setattr(plain_stores, "plain_store", lambda _: None)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code of x86-64")
def test_decoded_plain_stores_match_the_processor(stepped: Callable[[], None]) -> None:
    if " avx " not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this processor has no AVX")
    program = f"PLAIN, OTHERS = {[*PLAIN.values()]}, {[*OTHERS.values()]}\n{_RUN}"

    done = steps_of(traced(program))
    stepped()
    by_processor = steps_of(traced(program))

    assert [(one.at, one.data) for one in done] == [(one.at, one.data) for one in by_processor]
    stores = [one for one in done if one.kind == "store"]
    assert len(stores) >= len(PLAIN) + len(OTHERS) - 2  # a store may not change its byte
    assert max(len(one.data) for one in stores) == 32


def test_a_store_after_the_end_of_a_file_is_not_recorded() -> None:
    steps = steps_of(
        traced("""
            f = file(content=bytes(5000))
            m = mmap.mmap(f, 5000)
            m[4999] = 1
            ctypes.c_char.from_address(address(m) + 6000).value = b"x"
            ctypes.c_uint64.from_address(address(m) + 4996).value = 2**64 - 1
            os.ftruncate(f, 8192)
            ctypes.c_char.from_address(address(m) + 6000).value = b"y"
            """)
    )

    assert [step for step in as_short_texts(steps) if step.startswith("store")] == [
        "store #0 @4999 '\\x01'",
        "store #0 @4996 'ÿÿÿÿ'",
        "store #0 @6000 'y'",
    ]


def test_a_store_through_a_shared_map_of_a_read_only_file_is_single_stepped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_stores, "_AGAIN", 0)  # a read-only map

    steps = steps_of(
        traced("""
            m = mmap.mmap(file(content=bytes(8192)), 8192)
            m[4096] = 7
            m[4097] = 8
            """)
    )

    assert [one.data for one in steps if one.kind == "store"] == [b"\7", b"\10"]
