"""Makes untrusted text safe to show: no character controls the terminal or is invisible."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["VisibleStream", "exact", "hidden_in", "json_text", "visible"]

# Invisible characters in the categories of letters, marks and symbols: fillers, blank signs,
# joiners and all variation selectors.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
# Kept where a script or an emoji needs them: the two joiners, and the two selectors that choose
# between a coloured and a plain sign.
_IN_CONTEXT = re.compile("[\u200c\u200d\ufe0e\ufe0f]")
_AT_THE_END = re.compile(r"[\r\u200c\u200d\ufe0e\ufe0f]+\Z")
_LAST_SIGN = re.compile(r"[^\u200c\u200d\ufe0e\ufe0f\n][\ufe0e\ufe0f]?\Z")
_KEYCAP = "\u20e3"
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_MOST_MARKS = 2
# Marks that strike out or enclose the letter they follow.
_OVERLAYS = re.compile("[\u0334-\u0338\u0488\u0489\u1abe\u20d0-\u20f0]")
_ALPHABETS = ("LATIN", "CYRILLIC", "GREEK")


class _Table(dict[int, str]):
    """A table for `str.translate` that is filled on demand."""

    def __init__(self, shown: Callable[[str], str], first: dict[str, str]) -> None:
        super().__init__({ord(each): text for each, text in first.items()})
        self._shown = shown

    def __missing__(self, code: int) -> str:
        self[code] = self._shown(chr(code))
        return self[code]


def visible(text: str) -> str:
    """Return text that is safe to print on a terminal; line ends and tabs stay.

    Characters that move the cursor, reverse the writing direction or are invisible are escaped, as
    in `\\u202e`. Other blanks become a space. Emoji of several characters stay whole, and so do
    the joiners of Arabic and Indic scripts.
    """
    if text.isascii() and text.isprintable():
        return text
    plain = text.replace("\r\n", "\n").translate(_VISIBLE)
    return _IN_CONTEXT.sub(_joined, plain)


def exact(text: str) -> str:
    """Return text in one line with every character escaped that is not plainly visible.

    For names and for questions: no emoji and no script excuses an invisible character here. A
    letter of another alphabet inside of a Latin word is escaped, and so are stacked marks.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_each_exact(text))


def json_text(value: Any, *, indent: int | None = None, default: Any = str, **more: Any) -> str:
    """Return a value as JSON that is safe to print; a reader gets back exactly the value."""
    import json  # noqa: PLC0415 - every command imports this file as it starts, few write JSON

    return json.dumps(value, indent=indent, default=default, ensure_ascii=False, **more).translate(
        _JSON
    )


def hidden_in(text: str) -> list[str]:
    """Return the characters of a text that `visible` escapes."""
    plain = text.replace("\r\n", "\n")
    hidden = [each for each in plain if _VISIBLE[ord(each)] not in (each, " ")]
    return hidden + [each[0] for each in _IN_CONTEXT.finditer(plain) if _joined(each) != each[0]]


class VisibleStream:
    """Makes streamed text visible; a character that depends on the next one waits for it."""

    def __init__(self) -> None:
        self._held = ""
        self._last = ""

    def feed(self, text: str) -> str:
        """Return the text that can be shown so far."""
        text = self._held + text
        waits = _AT_THE_END.search(text)
        self._held = "" if waits is None else waits[0]
        return self._show(text[: len(text) - len(self._held)])

    def rest(self) -> str:
        """Return the text that was held back, at the end of the stream."""
        text = self._held
        self._held = ""
        return self._show(text)

    def _show(self, text: str) -> str:
        # The last sign decides whether a selector or a joiner after it is kept.
        shown = visible(self._last + text)[len(self._last) :]
        last = _LAST_SIGN.search(self._last + shown)
        self._last = "" if last is None else last[0]
        return shown


def _spelled(character: str) -> str:
    """Return a visible character as it is, any other one escaped."""
    # Letters, marks, numbers, punctuation and symbols are visible, unless they are blank.
    shows = character == " " or unicodedata.category(character)[0] in "LMNPS"
    if shows and _BLANK.match(character) is None:
        return character
    return _escape(character)


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\U{code:08x}"


def _shown_in_text(character: str) -> str:
    if _IN_CONTEXT.match(character) is not None:
        return character
    if unicodedata.category(character) == "Zs":
        return " "
    return _spelled(character)


def _shown_in_json(character: str) -> str:
    if unicodedata.category(character) == "Zs" or _spelled(character) == character:
        return character
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04x}"
    # JSON escapes have four digits, so this takes a surrogate pair.
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


_VISIBLE = _Table(_shown_in_text, {"\n": "\n", "\t": "\t"})
_JSON = _Table(_shown_in_json, {"\n": "\n"})


def _joined(found: re.Match[str]) -> str:
    """Return a joiner or selector if it fits the characters beside it, else its escape."""
    before = found.string[: found.start()][-2:]
    after = found.string[found.end() : found.end() + 1]
    if found[0] in "\ufe0e\ufe0f":
        kept = _selects(before, after)
    else:
        kept = _joins(before, after)
    if kept:
        return found[0]
    return _escape(found[0])


def _selects(before: str, after: str) -> bool:
    if before[-1:] in tuple("0123456789#*"):
        return after == _KEYCAP
    return _is_sign(before[-1:]) or before[-1:] in ("\u203c", "\u2049", "\u3030")


def _joins(before: str, after: str) -> bool:
    if _is_sign(after) and _is_sign(before.rstrip("\ufe0f")[-1:]):
        return True
    # From Arabic to Sinhala: a joiner changes the shape of letters in these scripts.
    return "\u0600" <= before[-1:] <= "\u0dff" and "\u0600" <= after <= "\u0dff"


def _is_sign(character: str) -> bool:
    return bool(character) and ord(character) > 0xA8 and unicodedata.category(character)[0] == "S"


def _each_exact(text: str) -> Iterator[str]:
    # A mark at the very start is escaped: it would combine with what is printed before the text.
    marks = _MOST_MARKS
    foreign = _foreign_letters(text)
    for at, character in enumerate(text):
        is_mark = unicodedata.category(character)[0] == "M"
        marks = marks + 1 if is_mark else 0
        if character in _SHORT:
            yield _SHORT[character]
        elif at in foreign or (is_mark and (marks > _MOST_MARKS or _OVERLAYS.match(character))):
            yield _escape(character)
        else:
            yield _spelled(character)


def _foreign_letters(text: str) -> set[int]:
    """Return the positions of Cyrillic and Greek letters in words that have Latin ones."""
    found: set[int] = set()
    for word in re.finditer(r"[^\W\d_]+", text):
        if word[0].isascii():
            continue
        names = [unicodedata.name(each, "").partition(" ")[0] for each in word[0]]
        alphabets = {name for name in names if name in _ALPHABETS}
        if "LATIN" in alphabets and len(alphabets) > 1:
            others = (at for at, name in enumerate(names, start=word.start()) if name != "LATIN")
            found.update(others)
    return found
