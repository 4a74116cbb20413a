"""The inventory of a bench: which boards, gateways and switches are there, and who uses them?"""

from bench.lab.inventory.entries import Inventory
from bench.lab.inventory.inventory_file import InventoryError, load

__all__ = ["Inventory", "InventoryError", "load"]
