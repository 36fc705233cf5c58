"""What the screens are made of. Most are a `lines.LinesView`, which draws again only the lines that changed, and where a click
does what the ink under it says; `composer` is a `labelled` text field, `field` a line of one."""
