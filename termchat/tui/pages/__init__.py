"""What all pages are made of: `page.Page`, which has lines and keys, and `grid_table.GridTable`, which has columns, rows and a
cursor. Neither knows a widget: `screen.panels.Panels` and `walks.walks_view.WalksView` show the lines and hand on the keys.
"""
