"""The page as a tree of its tags, read by Python's own parser, which says where tags are not closed or cross each other."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "hr", "input", "area", "base", "col", "embed", "source", "track", "wbr"}


@dataclass
class Tag:
    name: str
    attributes: dict[str, str]
    parent: "Tag | None" = None
    children: list["Tag"] = field(default_factory=list)
    content: list["Tag | str"] = field(default_factory=list)
    """Children and text in their order."""

    def all(self, name: str = "") -> list["Tag"]:
        """This tag and those below it, in the order of the page; only those of one name if it is given."""
        found = [self] if not name or self.name == name else []
        return found + [tag for child in self.children for tag in child.all(name)]

    @property
    def text(self) -> str:
        return "".join(each if isinstance(each, str) else each.text for each in self.content)

    @property
    def words(self) -> str:
        """As read: what stands in different tags is apart, white space counts once."""
        parts = [each if isinstance(each, str) else each.words for each in self.content]
        return " ".join(" ".join(parts).split())

    @property
    def classes(self) -> list[str]:
        return self.attributes.get("class", "").split()


class PageReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = self.here = Tag("", {})
        self.problems: list[str] = []
        self.doctype = ""

    def handle_decl(self, decl: str) -> None:
        self.doctype = decl

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(names) != len(set(names)):
            self.problems.append(f"line {self.getpos()[0]}: <{tag}> has an attribute twice: {names}")
        made = Tag(tag, {name: value or "" for name, value in attrs}, self.here)
        self.here.children.append(made)
        self.here.content.append(made)
        if tag not in VOID:
            self.here = made

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.here = self.here.parent

    def handle_endtag(self, tag: str) -> None:
        if tag != self.here.name:
            self.problems.append(f"line {self.getpos()[0]}: </{tag}> closes <{self.here.name}>")
        elif self.here.parent is not None:
            self.here = self.here.parent

    def handle_data(self, data: str) -> None:
        self.here.content.append(data)


def read_page(html: str) -> PageReader:
    reader = PageReader()
    reader.feed(html)
    reader.close()
    if reader.here is not reader.root:
        reader.problems.append(f"<{reader.here.name}> is never closed")
    return reader
