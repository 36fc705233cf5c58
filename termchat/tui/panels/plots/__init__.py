"""The plots of the panels."""
