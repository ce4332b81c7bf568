"""Damage at rest: synced data that a disk returns changed, without an error.

    name               content that the disk returns                                   fault
    bit-flip           one bit of a synced page is flipped                             bit rot
    zeroed-sector      a sector of a synced page has zeros                             zeroed sector
    lost-write         a synced page has the content before the sync that wrote it     lost write
    misdirected-write  the same, and another synced page, of any file, has the new content  misdirected write

A page is synced if the disk has the bytes that readers see. All other data stays as the program left it, so that each
breach is due to the damage. The damaged pages are the first, the middle and the last possible page of each file. The
first sector of a file, which has its header, gets separate bit flips. A bit flip affects a random nonzero byte, if
possible.

The list has no latent sector error, because a file in a real directory cannot return EIO without privileges.
zeroed-sector is the closest damage without an error.

Sources: see the faults in `kinds`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, zip_longest
from typing import NamedTuple

from ...sim.choices import Choices, Decision, Stream
from ..disk.content import Content, SparseBytes, with_pages_replaced
from ..disk.image import FileImage, Image
from ..disk.namespace import Namespace
from ..disk.page_cache import Inode
from ..kinds import FaultKind
from .crash import surviving_cache_image
from .enumeration import CrashLosses, CrashState, PossibleStates, SurvivingCache

_BITS_PER_AREA = 2
BIT_FLIP, ZEROED_SECTOR = "bit-flip", "zeroed-sector"
LOST_WRITE, MISDIRECTED_WRITE = "lost-write", "misdirected-write"


class DamageKind(NamedTuple):
    """One kind of damage. fault: its name in fault counts."""

    fault: FaultKind
    summary: str


_REST = "all other data is as the program left it"
DAMAGES: Mapping[str, DamageKind] = {
    BIT_FLIP: DamageKind(FaultKind.BIT_ROT, f"at rest, one bit of a synced page is flipped; {_REST}"),
    ZEROED_SECTOR: DamageKind(FaultKind.ZEROED_SECTOR, f"at rest, a sector of a synced page has zeros; {_REST}"),
    LOST_WRITE: DamageKind(
        FaultKind.LOST_WRITE, f"at rest, a synced page has the content before its last sync; {_REST}"
    ),
    MISDIRECTED_WRITE: DamageKind(
        FaultKind.MISDIRECTED_WRITE, "as lost-write, and the content of the page is at the place of another synced page"
    ),
}
"""Kinds of damage, by the name of their disk."""
AT_REST = frozenset(DAMAGES)


class Place(NamedTuple):
    """A page of a file."""

    path: str
    page: int


class Damage(NamedTuple):
    """One damaged page. number: bit or sector in the page, or number of the target page of a misdirected write."""

    place: Place
    number: int = 0
    target: Place | None = None
    """The page overwritten by a misdirected write."""
    wrote: int = -1
    """The last operation that wrote to the page before its sync; -1: the program did not write the page."""


@dataclass(slots=True, eq=False)
class DamagedState(CrashState):
    """All files, with the damage, if any."""

    damage: Damage | None = None

    @classmethod
    def from_image(cls, image: Image, damage: Damage | None = None) -> "DamagedState":
        return cls(SurvivingCache(image), (), damage)

    @property
    def loss_count(self) -> int:
        return int(self.damage is not None)


@dataclass(slots=True)
class DataAtRest:
    """The synced pages of one disk. Call `note_before_sync` before each sync."""

    _names: Namespace
    _page_bytes: int
    _sector_bytes: int
    _wall_start_ms: int
    _former: dict[tuple[int, int], tuple[bytes, int]] = field(default_factory=dict)
    """Durable content before the last sync, and last operation that wrote to it, by Inode.identity and page."""

    def note_before_sync(self) -> None:
        """Save the durable content of dirty pages, which the sync may replace."""
        for inode in self._names.current.files.values():
            if not inode.pending:
                continue
            durable = inode.durable_bytes(inode.size_bytes)
            for page, wrote in _dirty_pages(inode).items():
                at = page * self._page_bytes
                self._former[inode.identity, page] = bytes(durable[at : at + self._page_bytes]), wrote

    def states(self, disk: str, limit: int, stream: Stream) -> "DamageStates":
        """Return up to `limit` states with one damage each. stream: selects bits. The disk does not change."""
        names = self._names.current
        whole = surviving_cache_image(names, self._wall_start_ms)
        inodes = dict(names.contents())
        synced: dict[str, list[int]] = {}
        known: set[int] = set()
        for path in whole.files:
            if inodes[path].identity not in known:  # the damage of a page is visible under each name of its file
                known.add(inodes[path].identity)
                pages = _pages_with_data(whole.files[path].held, self._page_bytes)
                dirty = {*_dirty_pages(inodes[path]), *inodes[path].stale}
                synced[path] = [page for page in pages if page not in dirty]
        former = {
            Place(path, page): self._former[inodes[path].identity, page]
            for path, pages in synced.items()
            for page in pages
            if (inodes[path].identity, page) in self._former
        }
        twins = {path: [one for one in inodes if inodes[one] is inodes[path]] for path in synced}
        return DamageStates(disk, whole, synced, former, twins, self._page_bytes, self._sector_bytes, limit, stream)


def _dirty_pages(inode: Inode) -> dict[int, int]:
    """Return the dirty pages of a file, each with its last write operation."""
    size = inode.page_bytes
    return {
        page: number for number, at, data in inode.pending for page in range(at // size, -(-(at + len(data)) // size))
    }


def _pages_with_data(content: Content, page_bytes: int) -> list[int]:
    if isinstance(content, SparseBytes):
        return list(content.pages())
    return list(range(-(-len(content) // page_bytes)))


class DamageStates(PossibleStates):
    """The damaged states of one crash point, built on first use. The first state has no damage.

    synced: synced pages by file. former: previous contents. twins: all names of a file, by its first name.
    """

    def __init__(
        self,
        disk: str,
        whole: Image,
        synced: Mapping[str, Sequence[int]],
        former: Mapping[Place, tuple[bytes, int]],
        twins: Mapping[str, Sequence[str]],
        page_bytes: int,
        sector_bytes: int,
        limit: int,
        stream: Stream,
    ) -> None:
        self._disk, self._whole, self._twins = disk, whole, twins
        self._page_bytes, self._sector_bytes = page_bytes, sector_bytes
        self._limit, self._stream = limit, stream
        self._former = former
        self._places = [Place(path, page) for path, pages in synced.items() for page in pages]
        self._number = {place: number for number, place in enumerate(self._places)}
        self._synced = synced
        is_rewritten = disk in (LOST_WRITE, MISDIRECTED_WRITE)
        pages = {
            path: [one for one in pages if not is_rewritten or self._differs_from_former(Place(path, one))]
            for path, pages in synced.items()
        }
        self._pages = {path: found for path, found in pages.items() if found}
        """Pages that can be damaged, by file, without files that have none."""

    def _find_states(self) -> list[CrashState]:
        states: dict[int, CrashState] = {self._whole.key: DamagedState.from_image(self._whole)}
        for damage in self._representative_damages():
            state = self._damaged_state(damage)
            states.setdefault(state.key, state)
            if len(states) > self._limit:
                self.was_cut = True
                break
        return list(islice(states.values(), self._limit))

    def losses_of(self, state: CrashState) -> CrashLosses:
        return CrashLosses((), ())

    def decisions(self, state: CrashState, stream_name: str) -> list[Decision]:
        assert isinstance(state, DamagedState), state
        stream = Choices("").stream(stream_name)
        self._record_damage_draws(stream, state.damage)
        return stream.decisions()

    def drawn(self, stream: Stream) -> DamagedState:
        damage = self._record_damage_draws(stream, None)
        return DamagedState.from_image(self._whole) if damage is None else self._damaged_state(damage)

    def _record_damage_draws(self, stream: Stream, proposed: Damage | None) -> Damage | None:
        """Record the damage as random choices: file, page, and bit, sector or target. Return the recorded damage."""
        paths = list(self._pages)
        number = 0 if proposed is None else 1 + paths.index(proposed.place.path)
        number = stream.record_draw(len(paths) + 1, "damaged file", number)
        if not number:
            return None
        path = paths[number - 1]
        within, pages = stream.with_subject(path), self._pages[path]
        index = 0 if proposed is None else pages.index(proposed.place.page)
        place = Place(path, pages[within.record_draw(len(pages), "damaged page", index)])
        options = self._possible_damage_count(place)
        if not options:  # a misdirected write needs a second page
            return None
        return self._make_damage(
            place, within.record_draw(options, self._disk, 0 if proposed is None else proposed.number)
        )

    def _possible_damage_count(self, place: Place) -> int:
        size_bytes = len(self._page_content(place))
        return {
            BIT_FLIP: 8 * size_bytes,
            ZEROED_SECTOR: -(-size_bytes // self._sector_bytes),
            LOST_WRITE: 1,
            MISDIRECTED_WRITE: len(self._places) - 1,
        }[self._disk]

    def _make_damage(self, place: Place, number: int) -> Damage:
        assert 0 <= number < self._possible_damage_count(place), (place, number)
        _, wrote = self._former.get(place, (b"", -1))
        target = None
        if self._disk == MISDIRECTED_WRITE:
            target = self._places[number + (number >= self._number[place])]
        return Damage(place, number, target, wrote)

    # -- contents -------------------------------------------------------------------------------------

    def _page_content(self, place: Place) -> bytes:
        at = place.page * self._page_bytes
        return bytes(self._whole.files[place.path].held[at : at + self._page_bytes])

    def _former_content(self, place: Place) -> bytes:
        size_bytes = len(self._page_content(place))
        return self._former[place][0][:size_bytes].ljust(size_bytes, b"\0")

    def _differs_from_former(self, place: Place) -> bool:
        return place in self._former and self._former_content(place) != self._page_content(place)

    def _damaged_state(self, damage: Damage) -> DamagedState:
        files = dict(self._whole.files)
        for place, content in self._damaged_pages(damage).items():
            file = files[place.path]
            changed = FileImage(with_pages_replaced(file.held, {place.page * self._page_bytes: content}), file.mtime_ms)
            files |= dict.fromkeys(self._twins[place.path], changed)
        return DamagedState.from_image(Image(files, self._whole.directories, self._whole.symlinks), damage)

    def _damaged_pages(self, damage: Damage) -> dict[Place, bytes]:
        place, number, target, _ = damage
        content = bytearray(self._page_content(place))
        if self._disk == BIT_FLIP:
            content[number // 8] ^= 1 << number % 8
        elif self._disk == ZEROED_SECTOR:
            start = number * self._sector_bytes
            end = min(start + self._sector_bytes, len(content))
            content[start:end] = bytes(end - start)
        elif target is None:
            content[:] = self._former_content(place)
        else:
            # cut to the length of a file's last page; pad a short page with zeros
            size_bytes = len(self._page_content(target))
            arrived = self._page_content(place)[:size_bytes].ljust(size_bytes, b"\0")
            return {place: self._former_content(place), target: arrived}
        return {place: bytes(content)}

    # -- selection ------------------------------------------------------------------------------------

    def _representative_damages(self) -> Iterator[Damage]:
        """Yield the damages to try, in turn by file, because the limit drops the last ones."""
        select: Callable[[str], Iterator[Damage]] = {
            BIT_FLIP: self._bit_flips,
            ZEROED_SECTOR: self._zeroed_sectors,
            LOST_WRITE: self._lost_writes,
            MISDIRECTED_WRITE: self._misdirected_writes,
        }[self._disk]
        by_file = [select(path) for path in self._pages]
        return (damage for damage in chain.from_iterable(zip_longest(*by_file)) if damage is not None)

    def _sample_pages(self, path: str) -> Iterator[Place]:
        pages = self._pages[path]
        return (Place(path, page) for page in dict.fromkeys((pages[0], pages[len(pages) // 2], pages[-1])))

    def _bit_flips(self, path: str) -> Iterator[Damage]:
        areas = [(place, self._page_bytes) for place in self._sample_pages(path)]
        if areas[0][0].page == 0:
            areas.insert(0, (areas[0][0], self._sector_bytes))
        for place, size_bytes in areas:
            content = self._page_content(place)[:size_bytes]
            filled = [at for at, byte in enumerate(content) if byte] or range(len(content))
            for _ in range(_BITS_PER_AREA):
                bit = self._stream.randbelow(8 * len(filled), f"bit of {path}")
                yield self._make_damage(place, 8 * filled[bit // 8] + bit % 8)

    def _zeroed_sectors(self, path: str) -> Iterator[Damage]:
        size_bytes = self._sector_bytes
        for place in self._sample_pages(path):
            content = self._page_content(place)
            filled = [
                at // size_bytes for at in range(0, len(content), size_bytes) if any(content[at : at + size_bytes])
            ]
            yield from (self._make_damage(place, number) for number in dict.fromkeys(filled[:1] + filled[-1:]))

    def _lost_writes(self, path: str) -> Iterator[Damage]:
        return (self._make_damage(place, 0) for place in self._sample_pages(path))

    def _misdirected_writes(self, path: str) -> Iterator[Damage]:
        """Yield misdirected writes to the next synced page and to the first page of the next file."""
        firsts = [self._number[Place(one, pages[0])] for one, pages in self._synced.items() if pages]
        other = next(
            (number for number in firsts if number > self._number[Place(path, self._synced[path][0])]), firsts[0]
        )
        for place in self._sample_pages(path):
            here = self._number[place]
            for number in dict.fromkeys([(here + 1) % len(self._places), other]):
                if number != here:
                    yield self._make_damage(place, number - (number > here))
