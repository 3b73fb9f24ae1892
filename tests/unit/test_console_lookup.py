"""What counts as the beginning of an id."""

from support.tables import each_row
from wakegate_console.lookup import prefix

ID = "f4b96ac4-404d-4f6a-9a03-a0565edc4922"


@each_row("length", [4, 8, 9, 13, 14, 35, 36])
def test_four_characters_or_more_of_an_id_are_its_beginning(length: int) -> None:
    assert prefix(ID[:length]) == ID[:length]
    assert prefix(ID[:length].upper()) == ID[:length]


@each_row("text", ["", "f4b", "f4b96ac4404d", "f4b9-", "run-7", "xyzw", ID + "0", "f4b9\n"])
def test_anything_else_is_not(text: str) -> None:
    assert prefix(text) is None
