"""A page -> what a browser makes of it: elements, attributes, visible text. Strict: an element that is not closed is an error."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br", "wbr", "img", "input", "link", "hr", "col"}
UNSEEN = {"style", "script", "title"}
BLOCKS = {
    "p", "h1", "h2", "h3", "table", "caption", "thead", "tr", "li", "ul", "ol", "section", "figure", "figcaption", "div", "nav",
    "text", "svg", "main", "button",
}  # fmt: skip


@dataclass
class Element:
    """A start tag and the path of open elements above it."""

    tag: str
    attributes: dict[str, str]
    path: tuple[str, ...]
    text: str = ""


@dataclass
class Html(HTMLParser):
    """`lines`: visible text, a line a block, cells apart by ` | `; `elements`: all of them, with the text inside."""

    source: str
    elements: list[Element] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    script: str = ""

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[Element] = []
        self.feed(self.source)
        self.close()
        assert not self.open, f"never closed: {[element.tag for element in self.open]}"

    @property
    def lines(self) -> list[str]:
        lines = (" ".join(line.split()).strip(" |") for line in "".join(self.pieces).split("\n"))
        return [line for line in lines if line]

    def all(self, tag: str, **attributes: str) -> list[Element]:
        wanted = {name.rstrip("_"): value for name, value in attributes.items()}
        return [e for e in self.elements if e.tag == tag and wanted.items() <= e.attributes.items()]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"an attribute twice in {tag}: {attrs}"
        element = Element(tag, {name: value or "" for name, value in attrs}, tuple(e.tag for e in self.open))
        self.elements.append(element)
        if tag in BLOCKS:
            self.pieces.append("\n")
        if tag in ("td", "th"):
            self.pieces.append(" | ")
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}> at {self.getpos()}"
        self.open.pop()
        if tag in BLOCKS:
            self.pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if any(element.tag == "script" for element in self.open):
            self.script += data
        for element in self.open:
            element.text += data
        if not any(element.tag in UNSEEN for element in self.open):
            self.pieces.append(data)
