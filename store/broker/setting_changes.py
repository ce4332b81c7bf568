"""Setting changes: parser of operators' requests, and errors."""

from collections.abc import Mapping

from ..formats.java_properties import PropertiesError, parse_properties
from ..formats.java_text import java_trim
from .requests import RequestRefusedError, ResponseCode

CHANGES_MAX = 1_024  # more than a broker has
KEY_CHARACTERS_MAX = 255
_BOOLEANS = {"true": True, "false": False}
_SHOWN_CHARACTERS = 80


class SettingChangeError(ValueError):
    """An invalid change. The message names the setting."""

    code = ResponseCode.SYSTEM_ERROR


class SettingFixedError(SettingChangeError):
    """A change of a setting that cannot change at run time."""

    code = ResponseCode.NO_PERMISSION


def wanted_settings(body: bytes) -> dict[str, str]:
    """Parse a .properties body. Refuses an invalid one."""
    wanted: dict[str, str] = {}
    try:
        for each in parse_properties(body.decode()):
            if len(each.key) > KEY_CHARACTERS_MAX:
                expected = f"settings: expected names of {KEY_CHARACTERS_MAX} characters or fewer"
                raise RequestRefusedError(f"{expected}, found {len(each.key)}")
            wanted[each.key] = java_trim(each.value)
            if len(wanted) > CHANGES_MAX:
                raise RequestRefusedError(f"settings: expected {CHANGES_MAX} or fewer, found one more")
    except (PropertiesError, UnicodeDecodeError) as error:
        raise RequestRefusedError(f"body: expected lines with key=value: {error}") from error
    if not wanted:
        raise RequestRefusedError("body: expected lines with key=value, found none")
    return wanted


def properties_text(settings: Mapping[str, str]) -> bytes:
    return "".join(f"{key}={value}\n" for key, value in sorted(settings.items())).encode()


def boolean_of(key: str, text: str) -> bool:
    """Raises SettingChangeError."""
    value = _BOOLEANS.get(text.lower())
    if value is None:
        raise SettingChangeError(f"{key}: expected true or false, found {text[:_SHOWN_CHARACTERS]!r}")
    return value
