"""The screen: Textual lives here and nowhere else.

`start` puts the app together and `app` is it. `screens` are the chat's screen and the dialogs, `widgets` what they are made
of, `transcript` the chat itself; `views` make lines of the chat's state, without a widget. `demo` plays a recording.

Beside them is what needs no widget:
- keys: `key` is one, `keys` and `dialogkeys` are the tables that bindings, hints and help are made from, `keymap` checks what
  is remapped;
- commands: `slash` takes them, `slashtable` lists them, `slashdeeds` does them, `slashing` ties them to the composer;
- writing: `history` and its file, `attachments` for long pastes, `mentions` for files, `completing` and its sources, `editor`;
- colours: a theme file is read by `themes`, offered by `shelf`, chosen by `wardrobe`, fitted to the terminal by `depth`;
- the terminal: `abilities` and `glyphs` say what it can show, `terminal` drives it, `compositor` draws, `clipboard` copies;
- lists without a screen: `modellist`, `sessionlist`, `engineform`, `tune`, `tokenmode`, `finding`;
- work that nobody waits for: `aside` and `inturn` are threads, `gathering`, `pulls` and `facts` what they bring, `pulse` says
  when the engine is looked at.
"""
