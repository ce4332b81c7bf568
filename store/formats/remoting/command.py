"""A remoting command: a request, or the response to one, whichever of the two header forms it travels in.

Source: RocketMQ RemotingCommand, LanguageCode, SerializeType.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from ...errors import CorruptFileError

RESPONSE_FLAG = 0x1
ONE_WAY_FLAG = 0x2
LANGUAGES = (
    "JAVA",
    "CPP",
    "DOTNET",
    "PYTHON",
    "DELPHI",
    "ERLANG",
    "RUBY",
    "OTHER",
    "HTTP",
    "GO",
    "PHP",
    "OMS",
    "RUST",
)
"""What a client is written in, by its code."""
OTHER_LANGUAGE = LANGUAGES.index("OTHER")


class HeaderForm(IntEnum):
    """How a header is written, by its code in the frame."""

    JSON = 0
    ROCKETMQ = 1


@dataclass(frozen=True, slots=True)
class RemotingCommand:
    """One command. Numbers are signed: code and version of 16 bits in the binary form, the others of 32."""

    code: int
    """Of a request what is asked for, of a response how it went."""
    opaque: int
    """Of the request, and repeated by its response."""
    flag: int = 0
    language: int = 0
    """A number in LANGUAGES; the binary form keeps others too, the JSON form calls them OTHER."""
    version: int = 0
    remark: str | None = None
    ext_fields: Mapping[str, str] = field(default_factory=dict)
    """The fields of the request or response by name, all of them texts; in order."""
    body: bytes = b""
    form: HeaderForm = HeaderForm.JSON

    @property
    def is_response(self) -> bool:
        """Return whether this answers a request."""
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_one_way(self) -> bool:
        """Return whether nobody waits for a response."""
        return bool(self.flag & ONE_WAY_FLAG)


def check_numbers(command: RemotingCommand, **bits: int) -> None:
    """Raise a ValueError that names the first of some fields that does not fit so many bits."""
    for name, width in bits.items():
        value = getattr(command, name)
        if not -(1 << width - 1) <= value < 1 << width - 1:
            raise ValueError(f"{name}: expected {width} bits, found {value}")


def decoded_text(raw: bytes, field_name: str, *, file: str, offset: int) -> str:
    """Return a text of a header, which begins at offset. CorruptFileError, placed at its first bad byte."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        found = raw[error.start : error.end].hex()
        raise CorruptFileError(file, offset + error.start, field_name, "UTF-8", found) from None
