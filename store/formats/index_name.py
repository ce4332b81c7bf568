"""Names of index files: the local time of their making, yyyyMMddHHmmssSSS, so that name order is the order of making.

Local times are counted in ms like those of the clock, as if the time zone were UTC. Calendar arithmetic after Howard
Hinnant, "chrono-compatible low-level date algorithms".
Source: RocketMQ UtilAll.timeMillisToHumanString.
"""

_NAME_CHARACTERS = 17
_DAY_MS = 86_400_000
_ERA_DAYS = 146_097  # 400 years
_EPOCH_DAYS = 719_468  # from 0000-03-01, where eras begin, to 1970-01-01
LOCAL_MS_MAX = 253_402_300_799_999  # the last that four digits of a year can tell


def index_file_name(local_ms: int) -> str:
    """Return the name for a local time in ms since 1970.

    >>> index_file_name(1_600_000_000_123)
    '20200913122640123'
    """
    assert 0 <= local_ms <= LOCAL_MS_MAX, local_ms
    days, ms = divmod(local_ms, _DAY_MS)
    year, month, day = _civil(days)
    seconds, ms = divmod(ms, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{year:04d}{month:02d}{day:02d}{hour:02d}{minute:02d}{second:02d}{ms:03d}"


def parse_index_file_name(name: str) -> int | None:
    """Return the local time a name tells, None if it tells none: then the file is not one of an index.

    >>> parse_index_file_name("20200913122640123"), parse_index_file_name("20200931000000000")
    (1600000000123, None)
    """
    if len(name) != _NAME_CHARACTERS or not (name.isascii() and name.isdecimal()):
        return None
    year, month, day = int(name[:4]), int(name[4:6]), int(name[6:8])
    hour, minute, second, ms = int(name[8:10]), int(name[10:12]), int(name[12:14]), int(name[14:])
    if not 1 <= month <= 12:
        return None
    local_ms = _days(year, month, day) * _DAY_MS + ((hour * 60 + minute) * 60 + second) * 1000 + ms
    if local_ms < 0 or local_ms > LOCAL_MS_MAX or index_file_name(local_ms) != name:
        return None
    return local_ms


def _civil(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a day counted from 1970-01-01."""
    era, day_of_era = divmod(days + _EPOCH_DAYS, _ERA_DAYS)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    return era * 400 + year_of_era + (month <= 2), month, day


def _days(year: int, month: int, day: int) -> int:
    """Return the day counted from 1970-01-01; a day that its month does not have is one of the next."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * _ERA_DAYS + day_of_era - _EPOCH_DAYS
