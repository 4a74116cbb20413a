"""The inventory of a bench: which boards, gateways and switches are there, and who uses them?"""

from bench.inventory.entries import Inventory
from bench.inventory.reading import InventoryError, load

__all__ = ["Inventory", "InventoryError", "load"]
