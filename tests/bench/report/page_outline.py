"""A page as its readers meet it: text, headings, links, and what it would ask the network for."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = frozenset("meta link img br wbr hr input".split())


@dataclass
class _Element:
    tag: str
    id: str


@dataclass(eq=False)
class Outline(HTMLParser):
    """What one page holds; `feed` it once. `open_tags` is empty if every element is closed."""

    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    open_tags: list[_Element] = field(default_factory=list)
    pieces: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    attributes: list[tuple[str, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in found.items()]
        if "id" in found:
            self.ids.append(found["id"])
        if "href" in found:
            (self.links if found["href"].startswith("#") else self.requests).append(found["href"])
        self.requests += [
            found[name] for name in ("src", "srcset", "data", "action") if name in found
        ]
        if tag not in _VOID:
            self.open_tags.append(_Element(tag, found.get("id", "")))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open_tags and self.open_tags[-1].tag == tag, (tag, self.open_tags)
        self.open_tags.pop()

    def handle_data(self, data: str) -> None:
        if any(element.tag in ("style", "script") for element in self.open_tags):
            return
        self.pieces.append((data, tuple(element.id for element in self.open_tags if element.id)))

    @property
    def text(self) -> str:
        """Everything a person reads, without styles and scripts."""
        return "".join(data for data, _ in self.pieces)

    @property
    def text_of(self) -> dict[str, str]:
        """The same for every element that has an id."""
        gathered: dict[str, list[str]] = {}
        for data, ids in self.pieces:
            for name in ids:
                gathered.setdefault(name, []).append(data)
        return {name: "".join(parts) for name, parts in gathered.items()}


def outline(html: str) -> Outline:
    """The outline of a whole page."""
    found = Outline()
    found.feed(html)
    found.close()
    return found
