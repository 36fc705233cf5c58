"""What screens are drawn with.

`ink` names how text looks, and paints lines of inks in a palette; `wrap` makes lines of text, `marks` the small parts of
panels, as bars and columns. `lines_view` is the widget that most panels are: it draws again only the lines that changed.
`clicking` lets a click do what the ink under it says; `picker` is a list with a chosen row, `field` an input of one line.
`background` runs work in threads, and `polling` wakes the screen when the engine has something to say.
"""
