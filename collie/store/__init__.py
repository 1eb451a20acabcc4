"""Campaign directories. The SQLite file is the record. All other files are written from it."""

from collie.store.directory import CampaignDirectory
from collie.store.memory import MemoryStore
from collie.store.sqlite import SqliteStore

__all__ = ["CampaignDirectory", "MemoryStore", "SqliteStore"]
