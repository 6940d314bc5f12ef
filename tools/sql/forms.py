"""The forms in which an answer is written, and the files that imply them."""

from typing import Final

FORMATS: Final = ("table", "csv", "json", "jsonl", "parquet")
FORMAT_OF: Final = {
    ".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet",
}  # fmt: skip
