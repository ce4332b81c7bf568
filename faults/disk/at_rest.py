"""What becomes of data that nobody touches: a fault model of images, for the time between two machines.

    bit rot              one bit of a sector is another one
    zeroed sector        a sector holds zeros
    swapped pages        two pages of a file have changed places
    latent sector error  a sector cannot be read; its bytes stay in the image, where only a judge sees them

Each strikes a file at most once per call. Three times out of four it strikes where there is something to lose; zeros
behind the end of what was written rot as well. What rots under a running machine is the same: it shows when the page is
next read from the platter, which is here after the machine has been off.

Sources: Bairavasundaram et al., "An Analysis of Data Corruption in the Storage Stack", FAST 2008, and "An Analysis of
Latent Sector Errors in Disk Drives", SIGMETRICS 2007; Prabhakaran et al., "IRON File Systems", SOSP 2005.
"""

from collections import Counter
from dataclasses import dataclass

from ...sim.choices import Stream
from .damage import DamagedRange
from .flaws import LATENT_SECTOR_ERROR
from .image import FileImage, Image

BIT_ROT, ZEROED_SECTOR, SWAPPED_PAGES = "bit rot", "zeroed sector", "swapped pages"
_ANYWHERE_CHANCE = 0.25


@dataclass(frozen=True, slots=True)
class RotPlan:
    """What rots, and how often. Chances are per file; everything is off unless told otherwise."""

    bit_rot_chance: float = 0.0
    zeroed_sector_chance: float = 0.0
    swapped_pages_chance: float = 0.0
    latent_sector_error_chance: float = 0.0

    @property
    def is_possible(self) -> bool:
        """Return whether anything rots."""
        return self != _NO_ROT


_NO_ROT = RotPlan()


def rot(
    image: Image,
    stream: Stream,
    plan: RotPlan,
    fired: Counter[str],
    *,
    sector_bytes: int = 512,
    page_bytes: int = 4096,
) -> tuple[Image, list[DamagedRange]]:
    """Return what time has made of an image, and where it did so; the image itself if it did nothing.

    fired counts what changed a byte; a sector that cannot be read is counted by who tries. Damages of that kind are
    what `Disk` takes as bad_sectors.
    """
    if not plan.is_possible:
        return image, []
    damage: list[DamagedRange] = []
    files = dict(image.files)
    for path, file in image.files.items():
        rotting = _Rotting(path, file.content, stream.within(path), fired, sector_bytes, page_bytes)
        rotting.suffer(plan)
        if rotting.content != file.content:
            files[path] = FileImage(bytes(rotting.content), file.mtime_ms)
        damage += rotting.damage
    return (Image(files, image.directories) if files != image.files else image), damage


class _Rotting:
    """One file's content, as it decays."""

    def __init__(
        self,
        path: str,
        content: bytes,
        stream: Stream,
        fired: Counter[str],
        sector_bytes: int,
        page_bytes: int,
    ) -> None:
        self.content = bytearray(content)
        self.damage: list[DamagedRange] = []
        self._path = path
        self._stream = stream
        self._fired = fired
        self._sector_bytes = sector_bytes
        self._page_bytes = page_bytes

    def suffer(self, plan: RotPlan) -> None:
        """Draw what happens, and let it happen."""
        if not self.content:
            return
        chance = self._stream.chance
        if chance(plan.bit_rot_chance, BIT_ROT):
            start, end = self._place(self._sector_bytes, f"sector of {BIT_ROT}")
            bit = self._stream.below((end - start) * 8, f"bit of {BIT_ROT}")
            self.content[start + bit // 8] ^= 1 << bit % 8
            self._note(start, end, BIT_ROT)
            self._fired[BIT_ROT] += 1
        if chance(plan.zeroed_sector_chance, ZEROED_SECTOR):
            start, end = self._place(self._sector_bytes, ZEROED_SECTOR)
            if any(self.content[start:end]):
                self.content[start:end] = bytes(end - start)
                self._note(start, end, ZEROED_SECTOR)
                self._fired[ZEROED_SECTOR] += 1
        if chance(plan.swapped_pages_chance, SWAPPED_PAGES):
            self._swap()
        if chance(plan.latent_sector_error_chance, LATENT_SECTOR_ERROR):
            start, end = self._place(self._sector_bytes, LATENT_SECTOR_ERROR)
            self._note(start, end, LATENT_SECTOR_ERROR)

    def _swap(self) -> None:
        """Let two whole pages change places; a last page that is not whole stays where it is."""
        page_bytes = self._page_bytes
        whole = len(self.content) // page_bytes
        if whole < 2:
            return
        first, _ = self._place(page_bytes, f"first of {SWAPPED_PAGES}", whole * page_bytes)
        at = self._stream.below(whole - 1, f"second of {SWAPPED_PAGES}") * page_bytes
        second = at if at < first else at + page_bytes
        one, other = self.content[first : first + page_bytes], self.content[second : second + page_bytes]
        if one == other:
            return
        self.content[first : first + page_bytes], self.content[second : second + page_bytes] = other, one
        self._note(first, first + page_bytes, SWAPPED_PAGES)
        self._note(second, second + page_bytes, SWAPPED_PAGES)
        self._fired[SWAPPED_PAGES] += 1

    def _place(self, unit_bytes: int, label: str, upto: int | None = None) -> tuple[int, int]:
        """Draw a sector or a page: one that has something in it, if there is one, or now and then any."""
        size_bytes = len(self.content) if upto is None else upto
        starts = list(range(0, size_bytes, unit_bytes))
        filled = [at for at in starts if any(self.content[at : at + unit_bytes])]
        if filled and not self._stream.chance(_ANYWHERE_CHANCE, f"{label} anywhere"):
            starts = filled
        at = self._stream.pick(starts, label)
        return at, min(at + unit_bytes, size_bytes)

    def _note(self, start: int, end: int, kind: str) -> None:
        self.damage.append(DamagedRange(self._path, start, end, kind))
