"""Keys, declared once in tables: bindings, hints, palette, help and remaps are made from them."""
