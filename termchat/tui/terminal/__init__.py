"""The terminal: what it can show, its driver, the frames that are sent to it, its keys and its clipboard.

`driver` reads text, in a thread; `input_stream` makes keys, pastes and answers of it; the app gets them, and `typeahead` passes
them on one at a time. `capabilities` says which colours and characters there are. `compositor` sends what widgets draw,
`screens` says when, and `scrolling` is the base of views that scroll. `clipboard` copies. The widgets of all other rooms build
on these.

This is the only room that uses private names of Textual; a test holds the list of them. They were checked with Textual
8.2.8, and are there because

- compositor: `Compositor`, its updates, `_dirty_regions`, `_set_dirty` and `_dirty_widgets` draw only the lines that changed.
  The public way costs twice as much as the rest of a frame. `_full_map` and `_full_map_invalidated` have a layout draw what
  was shown before it, too. `_size_updated` spares a second layout after each new size, and
  tells every size to those who depend on it.
- screens: `_compositor` puts that compositor in place. `_on_timer_update` and `_dirty_widgets` draw a frame at once, without
  the wait for a timer of up to 1/60 s after each key. `_update_timer` and `_layout_required` show a state in the next frame.
  `_screen_resized` spares a second layout. `_select_state` and `_update_select` let a selection grow while a view scrolls.
  `_exit` and `_handle_exception` keep an app that is on its way out from ending with a traceback.
- scrolling: `_vertical_scrollbar` and `_start_widget` put in a scroll bar that draws itself faster than all the lines.
  `_size_updated` as in compositor.
- driver: `_file` is replaced by one that survives a terminal that has gone; `_key_thread`, `_auto_restart`,
  `_must_signal_resume`, `_sigtstp_application` and `_sigcont_application` make Ctrl+Z and fg work beside programs that have
  the terminal meanwhile; `_app` and `_debug` are what a driver is given.
- input_stream: `XTermParser` knows the sequences of keys and of the mouse, and the marks of a paste; a paste with escape
  sequences in it is kept from it, and so are the key Esc, for which it waits too long, and what it does not know.
- clipboard: `_clipboard` and `_driver`, since `App.copy_to_clipboard` sends a text of any length and fails on surrogates.
"""
