"""The turn recorder of runners."""
