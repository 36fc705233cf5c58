"""The terminal: what it can show, its driver, its keys, the frames that are sent to it, and its clipboard.

    keys ─ driver (a thread) ─ input_stream ─▶ app ─▶ widgets ─ screens ─▶ terminal

`driver` reads text and survives what happens to terminals; `input_stream` makes keys, pastes and answers of it, and has the app
take one after the other. `screens` says what is sent of what widgets draw, and when; the widgets of all other rooms build on
it. `capabilities` says which colours and characters there are. `clipboard` copies.

This is the only room that uses private names of Textual; a test holds the list of them. They were checked with Textual
8.2.8, and are there because

- screens: `Compositor`, its updates, `_dirty_regions`, `_set_dirty` and `_dirty_widgets` draw only the lines that changed.
  `_full_map` and `_full_map_invalidated` have a layout draw what was shown before it, too. `_compositor` puts that compositor
  in place. `_size_updated` and `_screen_resized` spare a second layout after each new size. `_on_timer_update` draws a frame
  at once, without the wait for a timer of up to 1/60 s after each key. `_select_state` and `_update_select` let a selection
  grow while a view scrolls. `_exit` and `_handle_exception` keep an app that is on its way out from ending with a traceback.
  `_vertical_scrollbar` and `_start_widget` put in a scroll bar that draws itself faster than all the lines.
  `_WORD_START` is where a word begins in an input.
- driver: `_file` is replaced by one that survives a terminal that has gone; `_key_thread`, `_auto_restart`,
  `_must_signal_resume`, `_sigtstp_application` and `_sigcont_application` make Ctrl+Z and fg work beside programs that have
  the terminal meanwhile; `_app` and `_debug` are what a driver is given.
- input_stream: `XTermParser` knows the sequences of keys and of the mouse, and the marks of a paste; a paste with escape
  sequences in it is kept from it, and so are the key Esc, for which it waits too long, and what it does not know.
- clipboard: `_clipboard` and `_driver`, since `App.copy_to_clipboard` sends a text of any length and fails on surrogates.
"""
