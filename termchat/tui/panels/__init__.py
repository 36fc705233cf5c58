"""What the panels show: lines made of records, without a widget."""
