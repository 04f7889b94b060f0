"""Tables of a channel: what is read, and what is refused with which message."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from barograph.jobs.algorithms.columns import Target, describe, split, target_of, task_of
from barograph.jobs.algorithms.contract import run_trainer
from barograph.jobs.algorithms.table_prediction import BadData, features, read_columns, read_rows, write_csv
from barograph.jobs.algorithms.tables import Reading, Table, column_names, read_table, target_in
from barograph.jobs.algorithms.trainers import lightgbm_trainer, linear_trainer, mlp_trainer, xgboost_trainer

_WRONG_LINE = "the first line has 2. Correct the line, or pass the separator if it is not ','."
_READING = Reading()
TRAINERS = [xgboost_trainer, lightgbm_trainer, linear_trainer, mlp_trainer]


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(text: str, name: str = "data.csv") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def train(trainer: Any, source: Path, *arguments: str, validation: Path | None = None) -> Path:
        for name in ("SM_MODEL_DIR", "SM_OUTPUT_DATA_DIR"):
            monkeypatch.setenv(name, str(tmp_path / name))
        monkeypatch.setenv("SM_CHANNEL_TRAIN", str(source))
        monkeypatch.delenv("SM_CHANNEL_TEST", raising=False)
        monkeypatch.setenv("SM_CHANNEL_VALIDATION", str(validation or ""))
        trainer.train(arguments)
        return tmp_path / "SM_OUTPUT_DATA_DIR"

    return train


def cells_of(path: Path, reading: Reading = _READING) -> dict[str, list[Any]]:
    """Return the cells of a table, with None for missing numbers."""
    return {name: cells if isinstance(cells, list) else [None if cell != cell else cell for cell in cells.tolist()]
            for name, cells in read_table(path, reading).columns.items()}


def table_of(**columns: Any) -> Table:
    return Table(columns, "csv", True, "data.csv")


@pytest.mark.parametrize("text", [
    "a,b\n1,x\n2,y z\n", "a;b\n1;x\n2;y z\n", "a\tb\n1\tx\n2\ty z\n", "a|b\n1|x\n2|y z\n",
    'a,b\r\n"1",x\r\n2,"y z"\r\n', "\ufeffa,b\n1,x\n\n2,y z\n",
])
def test_separators_quotes_and_empty_lines_are_read(write: Any, text: str) -> None:
    assert cells_of(write(text)) == {"a": [1, 2], "b": ["x", "y z"]}


def test_a_folder_is_read_in_the_order_of_names_without_hidden_files(write: Any, tmp_path: Path) -> None:
    write("b,a\n4,3\n", "parts/2.csv")
    write("a,b\n1,2\n", "parts/1.csv")
    write("", "parts/_SUCCESS")
    write("x", "parts/.1.csv.crc")
    assert cells_of(tmp_path / "parts") == {"a": [1, 3], "b": [2, 4]}


def test_a_compressed_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "data.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    assert cells_of(tmp_path / "data.csv.gz") == {"a": [1], "b": [2]}
    assert read_rows(tmp_path / "data.csv.gz") == [["a", "b"], ["1", "2"]]


def test_the_training_and_the_prediction_script_read_the_same_features(write: Any) -> None:
    random = np.random.default_rng(0)
    exact = [repr(value) for value in (10.0 ** random.uniform(-300, 300, 50)).tolist()]
    odd = [' 1', "+2", "007", "1e400", "-inf", "NA", "", "?", "9007199254740993", "1."] * 5
    kind = ["true", "True", "1", "01", "", "1_0", " x ", "NaN", "null", 'a""b'] * 5
    big = ["123456789012345678901", "1"] * 25
    grouped = ["1,234.5", "12", "", "1,000,000", "7"] * 10
    rows = [*zip(exact, odd, kind, big, grouped, ["0", "1"] * 25, strict=True)]
    lines = ["exact,odd,kind,big,grouped,y", *(",".join(f'"{cell}"' for cell in row) for row in rows)]
    path = write("\n".join(lines))
    table = read_table(path, Reading())
    described, _ = describe(table, "y", range(50), one_hot=False)
    assert [column["kind"] for column in described] == ["number", "number", "category", "number", "number"]
    model = {"columns": described, "format": "csv", "header": True, "separator": ""}
    again = features(read_columns(path, model), model)
    np.testing.assert_array_equal(features(table.columns, model), again)
    assert again[:, 0].tolist() == [float(text) for text in exact]


def test_a_column_that_is_text_in_one_file_is_text_in_all(write: Any, tmp_path: Path) -> None:
    write("zip,y\n007,1\n10,2\n", "parts/1.csv")
    write("zip,y\nx,1\n", "parts/2.csv")
    assert cells_of(tmp_path / "parts") == {"zip": ["007", "10", "x"], "y": [1, 2, 1]}


def test_a_column_that_is_text_in_training_is_text_in_validation(train: Any, write: Any) -> None:
    rows = "".join(f"{zip_code},{row / 8 + (50 if zip_code == '007' else 0)}\n" for row in range(40)
                   for zip_code in ("007", "x", "7"))
    source = write(f"zip,y\n{rows}")
    output = train(linear_trainer, source, "--target", "y", validation=write("zip,y\n007,50\n7,1\n", "validation.csv"))
    found = pd.read_csv(output / "validation_predictions.csv")["prediction"]
    assert found[0] > found[1] + 45


def test_text_in_a_row_that_is_kept_for_validation_makes_the_column_text(train: Any, write: Any) -> None:
    rows = "".join(f"{row % 4},{row / 8}\n" for row in range(40))
    for place in range(6):
        lines = rows.splitlines()
        lines[place] = f"x,{place}.5"
        train(linear_trainer, write("a,y\n" + "\n".join(lines)), "--target", "y")


@pytest.mark.parametrize(("reading", "text", "names"), [
    (Reading(), "1,2\n3,4\n", ["column1", "column2"]),
    (Reading(), "a,2019\n3,4\n", ["column1", "column2"]),
    (Reading(target="2019"), "a,2019\n3,4\n", ["a", "2019"]),
    (Reading("yes"), "a,2019\n3,4\n", ["a", "2019"]),
    (Reading("no"), "a,b\nc,d\n", ["column1", "column2"]),
])
def test_the_first_line_has_names_unless_it_has_numbers(
    write: Any, reading: Reading, text: str, names: list[str]
) -> None:
    path = write(text)
    assert column_names(path, reading) == names
    assert list(read_table(path, reading).columns) == names


@pytest.mark.parametrize(("text", "message"), [
    ("", "data.csv is empty."),
    ("\n\n", "data.csv is empty."),
    ("a,b\n", "data.csv has the names of columns, but no rows."),
    ("a,b\n1,2\n3\n", f"Line 3 of data.csv has 1 field; {_WRONG_LINE}"),
    ("a,b\n1,2\n3,4,5\n", f"Line 3 of data.csv has 3 fields; {_WRONG_LINE}"),
    ('a,b\n"x\ny",2\n3,4,5\n', f"Line 4 of data.csv has 3 fields; {_WRONG_LINE}"),
    ("a,b\n1,2,3\n1,2,3\n", f"Line 2 of data.csv has 3 fields; {_WRONG_LINE}"),
    ("a,b,a\n1,2,3\n", 'data.csv has two columns called "a". Rename one.'),
])
def test_a_damaged_csv_file_is_refused_with_the_line(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    write(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadData) as caught:
        read_table(Path("data.csv"), Reading())
    assert str(caught.value) == message


def test_other_damaged_files_are_refused(tmp_path: Path, write: Any) -> None:
    with pytest.raises(BadData, match="does not exist"):
        read_table(tmp_path / "none.csv", Reading())
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadData, match="has no files"):
        read_table(tmp_path / "empty", Reading())
    (tmp_path / "latin.csv").write_bytes("stadt,preis\nKöln,1\n".encode("latin-1"))
    with pytest.raises(BadData, match=r"latin\.csv is not UTF-8: .* Convert it, for example with iconv\."):
        read_table(tmp_path / "latin.csv", Reading())
    with pytest.raises(BadData, match=r"Cannot read .*cut\.parquet: "):
        read_table(write("PAR1 and no more", "cut.parquet"), Reading())
    with pytest.raises(BadData, match=r'Line 2 of .*a\.libsvm is not in libsvm format: .*found "?\'1 2:x'):
        read_table(write("1 1:2.5\n1 2:x\n", "a.libsvm"), Reading())
    write("a,b\n1,2\n", "mixed/1.csv")
    write("1 1:2\n", "mixed/2.libsvm")
    with pytest.raises(BadData, match=r"different formats: 1\.csv is csv, 2\.libsvm is libsvm"):
        read_table(tmp_path / "mixed", Reading())
    write("a,b\n1,2\n", "other/1.csv")
    write("a,c\n1,2\n", "other/2.csv")
    with pytest.raises(BadData, match=r'2\.csv has no column "b", which other files of .*other have'):
        read_table(tmp_path / "other", Reading())


def test_files_that_are_no_tables_are_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "excel.csv").write_bytes("a,b\n1,2\n".encode("utf-16"))
    with pytest.raises(BadData, match=r"excel\.csv is not UTF-8"):
        read_table(tmp_path / "excel.csv", Reading())
    image = tmp_path / "cat.png"
    image.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    with pytest.raises(BadData, match=r"cat\.png is not a table .* For images, use --algorithm image-classifier\."):
        read_table(image, Reading())


def test_formats_are_known_by_content_without_a_suffix(tmp_path: Path, write: Any) -> None:
    pd.DataFrame({"a": [1], "b": ["x"]}).to_parquet(tmp_path / "p")
    assert read_table(tmp_path / "p", Reading()).form == "parquet"
    table = read_table(write("1 1:0.5 3:2 # note\n-1 qid:7 2:1\n", "s"), Reading())
    assert table.form == "libsvm"
    assert {name: cells.tolist() for name, cells in table.columns.items()} == {
        "label": [1, -1], "feature1": [0.5, 0], "feature2": [0, 1], "feature3": [2, 0]}


def test_types_of_parquet_columns(tmp_path: Path) -> None:
    from decimal import Decimal

    pd.DataFrame({
        "whole": pd.array([1, None], "Int64"), "flag": [True, False], "maybe": [True, None], "text": ["x", None],
        "kind": pd.Categorical(["u", None]), "exact": [Decimal("1.5"), None], "endless": [float("inf"), 1.0],
        "day": pd.to_datetime(["2026-01-01", None]), "list": [[1], [2]], "none": [None, None],
    }).to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet", Reading())
    cells = {name: cells if isinstance(cells, list) else [None if value != value else value for value in cells.tolist()]
             for name, cells in table.columns.items()}
    assert cells == {"whole": [1, None], "flag": ["True", "False"], "maybe": ["True", ""], "text": ["x", ""],
                     "kind": ["u", ""], "exact": [1.5, None], "endless": [None, 1.0], "none": [None, None]}
    assert [note.partition(":")[0] for note in table.notes] == [
        'Column "day" of t.parquet has the type datetime64[us]', 'Column "list" of t.parquet has the type object']


@pytest.mark.parametrize(("names", "reading", "message"), [
    (["price", "size"], Reading(target="prcie"), 'No column "prcie" in it. Did you mean "price"?'),
    (["price", "size"], Reading(), "Which column of it is the target? Pass --target NAME. Columns: price, size."),
    (["column1", "column2"], Reading(target="price"),
     'No column "price" in it. There are: column1, column2. The file has no names of columns (pass --header yes if its '
     "first line has them)."),
])
def test_a_target_that_is_not_there_is_refused(names: list[str], reading: Reading, message: str) -> None:
    with pytest.raises(BadData) as caught:
        target_in(names, reading, "it")
    assert str(caught.value) == message


def test_columns_without_a_name_are_left_out_and_not_listed(write: Any) -> None:
    path = write(",size,\n0,7,\n1,8,\n")
    table = read_table(path, Reading())
    assert (list(table.columns), table.notes) == (["size"], (
        "Column 1 of data.csv has no name: left out.", "Column 3 of data.csv has no name: left out."))
    with pytest.raises(BadData, match=r"Columns: size\.$"):
        target_in(column_names(path, Reading()), Reading(), "it")


def test_files_without_names_have_a_usual_target() -> None:
    assert target_in(["label", "feature1"], Reading(), "") == "label"
    assert target_in(["column1", "column2"], Reading(), "") == "column1"
    assert target_in(["column1", "column2"], Reading(target="column2"), "") == "column2"


@pytest.mark.parametrize(("cells", "expected"), [
    (["a", "b", ""], ("classification", '"y" has text')),
    (["1.5", "2", "3"], ("regression", '"y" has fractions')),
    (["0", "1", "1", "0"], ("classification", '"y" has 2 distinct integers')),
    ([str(number) for number in range(30)] * 3, ("regression", '"y" has 30 different numbers')),
    (["1", "2", "3"], ("regression", '"y" has 3 different numbers')),
])
def test_the_task_follows_the_type_of_the_target(cells: list[str], expected: tuple[str, str]) -> None:
    assert task_of(table_of(y=cells), "y") == expected


def test_columns_become_features() -> None:
    table = table_of(y=["1"] * 30, number=["1", "3", "NA"] * 10, price=["1,000", "2,500.5", ""] * 10,
                     mass=["1,5", "?", "2"] * 10,
                     kind=["b", " a", ""] * 10, empty=["", "NA", "?"] * 10, name=[f"n{row}" for row in range(30)])
    described, notes = describe(table, "y", range(table.rows), one_hot=False)
    matrix = features(table.columns, {"columns": described})
    assert [column["name"] for column in described] == ["number", "price", "mass", "kind"]
    np.testing.assert_array_equal(matrix[:3], [[1, 1000, 1.5, 1], [3, 2500.5, np.nan, 0], [np.nan, np.nan, 2, np.nan]])
    assert notes == [
        'Column "price": commas group thousands. Pass --decimal , if they are decimal marks.',
        'Column "empty" has no value: left out.', 'Column "name" has a different text in every row: left out.']


def test_numbers_are_standardized_and_categories_are_features_of_their_own() -> None:
    table = table_of(y=["1"] * 4, number=["1", "3", "NA", "2"], kind=["b", "a", "", "a"], same=["7", "7", "7", "7"])
    described, _ = describe(table, "y", range(table.rows), one_hot=True)
    deviation = np.sqrt(2 / 3)
    np.testing.assert_allclose(features(table.columns, {"columns": described}), [
        [-1 / deviation, 0, 1, 0], [1 / deviation, 1, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0]])


def test_of_very_many_categories_the_most_frequent_are_features() -> None:
    kinds = [f"k{row // 2}" for row in range(1000)] + ["often"] * 5
    table = table_of(y=["1"] * 1005, kind=kinds)
    described, notes = describe(table, "y", range(1005), one_hot=True)
    assert len(described[0]["categories"]) == 100
    assert "often" in described[0]["categories"]
    assert notes == ['Column "kind" has 501 categories: the 100 most frequent are used.']
    assert len(describe(table, "y", range(1005), one_hot=False)[0][0]["categories"]) == 501


@pytest.mark.parametrize("columns", [{}, {"x": ["", "", ""]}])
def test_a_table_with_no_column_to_learn_from_is_refused(columns: dict[str, list[str]]) -> None:
    with pytest.raises(BadData, match='has no column to predict "y" from'):
        describe(table_of(y=["1", "2", "3"], **columns), "y", range(3), one_hot=False)


def test_decimal_commas_and_thousands_of_a_target() -> None:
    assert target_of(table_of(y=["1,5", "2,25"]), "y", "regression").values.tolist() == [1.5, 2.25]
    assert target_of(table_of(y=["1,500", "2,000"]), "y", "regression").values.tolist() == [1500, 2000]
    assert target_of(table_of(y=["1,500", "2,000"]), "y", "regression", ",").values.tolist() == [1.5, 2]


def test_text_in_the_target_of_a_regression_is_refused_with_its_row() -> None:
    with pytest.raises(BadData) as caught:
        target_of(table_of(y=["1", "x"]), "y", "regression")
    assert str(caught.value) == ('Row 2 of data.csv: "x" in the target column "y" is not a number. Pass --task '
                                 "classification to predict classes.")


def test_classes_are_sorted_as_numbers_and_unknown_ones_are_missing() -> None:
    learned = target_of(table_of(y=["10", "9.0", "", "10"]), "y", "classification")
    assert learned.classes == ("9", "10")
    np.testing.assert_array_equal(learned.values, [1, 0, np.nan, 1])
    other = target_of(table_of(y=["9", "x", "11"]), "y", "classification", like=learned)
    np.testing.assert_array_equal(other.values, [0, np.nan, np.nan])


def test_the_split_has_the_same_share_of_each_class() -> None:
    target = Target(np.array([0.0] * 50 + [1.0] * 10 + [2.0]), ("a", "b", "c"), "")
    train, validation = split(target, 0.2, 0)
    assert np.bincount(target.values[validation].astype(int), minlength=3).tolist() == [10, 2, 0]
    assert sorted([*train, *validation]) == list(range(61))
    assert split(target, 0.2, 0)[1].tolist() == validation.tolist() != split(target, 0.2, 1)[1].tolist()


def test_a_class_with_one_row_is_for_training() -> None:
    train, _ = split(Target(np.array([0.0] * 20 + [1.0]), ("a", "b"), ""), 0.9, 0)
    assert 20 in train


def test_digits_with_underscores_are_text() -> None:
    described, _ = describe(table_of(y=["1", "2", "3"], part=["1_0", "1_1", "1_0"]), "y", range(3), one_hot=False)
    assert described[0]["categories"] == ["1_0", "1_1"]


def test_two_rows_are_split_into_one_and_one() -> None:
    train, validation = split(Target(np.array([1.0, 2.0]), None, ""), 0.2, 0)
    assert (len(train), len(validation)) == (1, 1)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_two_rows_train(train: Any, write: Any, trainer: Any) -> None:
    output = train(trainer, write("a,y\n1,1.5\n2,2.5\n"), "--target", "y")
    assert len((output / "validation_predictions.csv").read_text("utf-8").splitlines()) == 2


@pytest.mark.parametrize("trainer", TRAINERS)
def test_odd_names_of_columns_train(train: Any, write: Any, trainer: Any) -> None:
    rows = "".join(f"{row % 7},{row % 5},{row % 3},{row % 2},k{row % 4},{row / 8}\n" for row in range(60))
    output = train(trainer, write(f'größe ✓,class,"a[1]<2>",a_1_2_,"{{""x"":1}}",目标\n{rows}'), "--target", "目标")
    assert len((output / "validation_predictions.csv").read_text("utf-8").splitlines()) == 13


def test_an_unusual_separator_is_remembered(train: Any, write: Any, tmp_path: Path) -> None:
    path = write("a b y\n" + "".join(f"{row % 7} {row % 5} {row / 8}\n" for row in range(30)))
    train(linear_trainer, path, "--target", "y", "--separator", " ")
    model = json.loads((tmp_path / "SM_MODEL_DIR" / "model.json").read_text("utf-8"))
    assert features(read_columns(path, model), model).shape == (30, 2)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_missing_values_in_every_row_train(train: Any, write: Any, trainer: Any) -> None:
    rows = "".join(f"{row if row % 2 else ''},{'' if row % 2 else 'k'},{row / 8}\n" for row in range(60))
    output = train(trainer, write(f"a,b,y\n{rows}"), "--target", "y")
    assert len((output / "validation_predictions.csv").read_text("utf-8").splitlines()) == 13


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize(("text", "message"), [
    ("a,y\n1,x\n2,x\n3,x\n", "is x in every row: there is nothing to learn"),
    ("a,y\n1,5\n2,5\n3,5\n", "is 5 in every row: there is nothing to learn"),
    ("a,y\n1,\n2,NA\n3,nan\n", 'No row of .* has a value in the target column "y"'),
    ("a,y\n1,x\n2,z\n", "has no two rows of one class"),
    ("y\n1\n2\n3\n", 'has no column to predict "y" from'),
    ("a,b\n1,2\n2,3\n", 'No column "y" in'),
])
def test_data_with_nothing_to_learn_is_refused(train: Any, write: Any, trainer: Any, text: str, message: str) -> None:
    with pytest.raises(BadData, match=message):
        train(trainer, write(text), "--target", "y")


def test_one_row_is_refused(train: Any, write: Any) -> None:
    with pytest.raises(BadData, match="in every row"):
        train(linear_trainer, write("a,y\n1,5\n"), "--target", "y")


def test_rows_without_a_target_are_left_out_and_counted(train: Any, write: Any, capsys: Any) -> None:
    text = "a,y\n" + "".join(f"{row},{'' if row % 10 == 0 else row / 4}\n" for row in range(50))
    output = train(linear_trainer, write(text), "--target", "y", validation=write(text, "validation.csv"))
    said = capsys.readouterr().out
    assert '5 of 50 rows of train left out: no value in "y".' in said
    assert "1 column; 45 rows for train, 45 rows for validation" in said
    second = (output / "validation_predictions.csv").read_text("utf-8").splitlines()[1]
    assert second.startswith("2,0.25,")


def test_a_validation_table_without_a_column_is_refused(train: Any, write: Any) -> None:
    source = write("a,b,y\n1,2,0.5\n2,3,1.5\n3,3,4.5\n")
    with pytest.raises(BadData, match=r'validation\.csv has no column "b", which the model reads'):
        train(linear_trainer, source, "--target", "y", validation=write("a,y\n1,0.5\n", "validation.csv"))
    with pytest.raises(BadData, match=r'validation\.csv has no column "y", the target'):
        train(linear_trainer, source, "--target", "y", validation=write("a,b\n1,0.5\n", "validation.csv"))
    with pytest.raises(BadData, match=r'Row 1 of .*validation\.csv: "x" in column "b" is not a number'):
        train(linear_trainer, source, "--target", "y", validation=write("a,b,y\n1,x,0.5\n", "validation.csv"))


def test_an_error_of_the_user_ends_the_script_with_its_message_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(arguments: Any) -> None:
        raise BadData("data.csv is empty.")

    monkeypatch.setattr("sys.argv", ["/somewhere/xgboost_trainer.py"])
    with pytest.raises(SystemExit) as caught:
        run_trainer(fail)
    assert caught.value.code == "xgboost_trainer.py: data.csv is empty."


def test_a_script_without_a_channel_says_which_variable_it_needs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SM_CHANNEL_TRAIN", raising=False)
    monkeypatch.setenv("SM_MODEL_DIR", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["linear_trainer.py", "--target", "y"])
    with pytest.raises(SystemExit) as caught:
        run_trainer(linear_trainer.train)
    assert caught.value.code == ("linear_trainer.py: SM_CHANNEL_TRAIN is not set. `barograph submit` sets it; to run "
                                 "linear_trainer.py by hand, set it to a folder.")


def test_csv_is_written_with_quotes_where_it_needs_them(tmp_path: Path) -> None:
    with (tmp_path / "p.csv").open("w", encoding="utf-8", newline="") as file:
        write_csv(file, {"prediction": ["a,b", "c"]})
    assert (tmp_path / "p.csv").read_text("utf-8") == 'prediction\n"a,b"\nc\n'
