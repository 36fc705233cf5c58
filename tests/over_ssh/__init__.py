"""termchat over the real ssh, to an sshd of its own on the loopback; needs openssh-server, so only with `-m sshd`."""
