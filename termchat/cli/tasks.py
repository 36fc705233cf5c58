"""The commands that are one call into `termchat.commands`: run, replay, compare, tokens, tune and doctor."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from termchat.cli import completers
from termchat.cli.constraint_flags import constraint_flags, constraint_of
from termchat.cli.flags import flags, read_settings
from termchat.cli.help import ManualPage
from termchat.cli.walk_flags import plan_of, walk_flags
from termchat.config.origins import FLAG
from termchat.decoding.conditions import ConditionError, IgnoreEnd, Rule, parse
from termchat.decoding.samplers import KNOBS, well_formed
from termchat.engine.port import Engine

_MOST_REPLIES = 10_000
_OF_THE_SCREEN = ("theme", "glyphs", "big", "on_full")
_ON_RECORD = (*_OF_THE_SCREEN, "system", "persona", "preset", "recommendations", "fast_prefill")
_MEASURED = (
    *_ON_RECORD, "model", "draft_model", "default_engine", "remote_command", "threads", "threads_batch", "prefill_batch",
)  # fmt: skip
"""Options that a command has no flag for: the screen's alone, those a replay takes from the record, those `tune` finds."""


@click.command("run", cls=ManualPage, short_help="Answer one prompt and exit.")
@click.argument("prompt", required=False)
@click.option(
    "--messages",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="answer the messages in FILE, in OpenAI format (JSON); - for stdin; PROMPT, if given, comes after them",
)
@click.option("--raw", is_flag=True, help="complete PROMPT without the model's chat template")
@click.option("--prefill", default="", metavar="TEXT", help="start the reply with TEXT; the model continues from there")
@click.option(
    "-n",
    "--replies",
    type=click.IntRange(1, _MOST_REPLIES),
    default=1,
    show_default=True,
    metavar="N",
    help="print N replies; the second has the next seed, and so on",
)
@click.option(
    "--rule",
    "rules",
    multiple=True,
    metavar="TEXT",
    shell_complete=completers.rules,
    help="end the reply at a rule, for example: after 30 s, after 3 sentences, entropy > 4 for 5, loop (may be repeated);"
    " a sentence also ends with its line, and in Thai and Lao at a space",
)
@click.option("--ignore-eos", is_flag=True, help="go on after end tokens; the same as --rule 'ignore end'")
@click.option("--json", "as_json", is_flag=True, help="print the record stream, one JSON object per line")
@click.option(
    "--candidates",
    type=click.IntRange(0, 1000),
    default=20,
    show_default=True,
    help="candidates to record per step; 0 records the drawn token alone",
)
@walk_flags
@constraint_flags
@flags(without=_OF_THE_SCREEN)
@click.pass_obj
def run(
    engine: Engine,
    /,
    *,
    prompt: str | None,
    messages: Path | None,
    raw: bool,
    prefill: str,
    replies: int,
    rules: tuple[str, ...],
    ignore_eos: bool,
    as_json: bool,
    candidates: int,
    **given: Any,
) -> None:
    r"""Answer PROMPT and exit. Only the reply's text goes to stdout.

    If PROMPT is missing or "-", it is read from stdin. Each of several replies has a heading with its number and seed. With
    --json, each record has the number of its reply: "reply", from 1, with -n; "walk", from 0, when replies are decoded
    together. The records of walks are interleaved.

    Environment: settings
    Files: config, models
    Exit codes:
      0: done: the reply ended by itself, at a stop sequence or at --max-tokens
      1, 2
      3: a reply was cut off: the context is full, or the reply ended before it matched its constraint
      130, 141
      143: ended by SIGTERM
    Examples:
      # Print one reply
      $ termchat run "Why is the sky blue?"
      # Print the same reply every time
      $ termchat run --seed 42 --max-tokens 80 "Tell me a joke."
      # Print three different replies
      $ termchat run -n 3 "Name a river."
      # Print four replies, decoded together
      $ termchat run --walks 4 "Name a river."
      # Print three replies for each of three temperatures
      $ termchat run --grid temperature=0,0.7,1.5 --runs 3 "Name a river."
      # Print the most common answer of eight replies
      $ termchat run --vote "\d+" "What is 17 + 25?"
      # Print the two best replies of a beam search
      $ termchat run --beams 4 --n-best 2 "Name a river."
      # Ask about a file
      $ termchat run --system "Summarise this." < notes.txt
      # Answer a chat in OpenAI format
      $ termchat run --messages - < chat.json
      # Print every token with its candidates, for a program
      $ termchat run --json hello > reply.jsonl
      # Complete raw text without a chat template
      $ termchat run --raw --stop "\n" "The capital of France is"
    See also: replay, models list, config show
    """
    piped = prompt == "-" or (prompt is None and messages is None)
    if raw and messages is not None:
        raise click.UsageError("--raw completes PROMPT; it takes no --messages")
    if prompt == "-" and str(messages) == "-":
        raise click.UsageError("PROMPT and --messages cannot both be read from stdin")
    if piped and (sys.stdin is None or (prompt is None and sys.stdin.isatty())):
        raise click.UsageError("no prompt: pass PROMPT or pipe one in")
    if prompt == "":
        raise click.UsageError("the prompt is empty")
    plan = plan_of(given)
    if plan is not None and replies > 1:
        raise click.UsageError(
            "-n makes replies one after the other, the walk options make them together: leave one out"
        )
    if plan is not None and plan.group.beams is not None and (rules or ignore_eos or prefill):
        raise click.UsageError(
            "--beams does not work with --rule, --ignore-eos or --prefill: use --stop or --max-tokens to end it"
        )
    constraint = constraint_of(given)
    conditions = (*map(_parse_rule, rules), *([IgnoreEnd()] if ignore_eos else ()))
    chosen = read_settings(given)
    if plan is not None and chosen.origin["draft"] == FLAG:
        if plan.group.beams is not None and chosen.tuning.drafts is not None:
            raise click.UsageError("--draft does not work with --beams")
        if chosen.tuning.draft == "model":
            raise click.UsageError("a draft model drafts for one reply at a time: use --draft ngram with several walks")
    further = replies - 1 if plan is None else plan.choose_seed(0, plan.group.size - 1)
    if chosen.tuning.seed is not None and chosen.tuning.seed + further > KNOBS["seed"].high:
        raise click.UsageError(f"the seed of the last reply would be larger than {KNOBS['seed'].high:.0f}")
    if piped:
        prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
        if not prompt:
            raise click.UsageError("the prompt is empty")
    from termchat.commands.run import Question, answer

    prompt = None if prompt is None else well_formed(prompt)
    asked = Question(prompt, messages, well_formed(prefill), raw, replies, conditions, constraint, plan)
    sys.exit(answer(chosen, engine, asked, as_json=as_json, candidates=candidates))


def _parse_rule(text: str) -> Rule:
    """Parse a rule that ends the reply.

    Raises:
        click.BadParameter: it is not a rule, or pauses: nobody could resume the reply.
    """
    try:
        rule = parse(well_formed(text), "stop")
    except ConditionError as error:
        raise click.BadParameter(f"{text!r}: {error}", param_hint="--rule") from None
    if rule.action == "pause":
        raise click.BadParameter(
            f"{text!r}: a rule of this command ends the reply; write it without pause", param_hint="--rule"
        )
    return rule


@click.command("replay", cls=ManualPage, short_help="Regenerate saved replies and compare every field.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="print the report as one JSON object")
@click.option(
    "--walk",
    type=click.IntRange(0),
    metavar="N",
    help="generate only walk N, alone; walks are numbered from 0, as in the records",
)
@click.option(
    "--anywhere",
    is_flag=True,
    help="use the current engine settings, compare tokens only, and keep near ties as recorded",
)
@flags(without=_ON_RECORD, knobs=False)
def replay(*, file: Path, as_json: bool, walk: int | None, anywhere: bool, **given: Any) -> None:
    """Generate every reply in FILE again and report what differs, and why: any token, number, text or candidate. Times are
    ignored.

    Walks that were decoded together are generated together again.

    With --anywhere, threads, batch sizes and KV type may differ from the record. Certain draws must give the recorded token. At
    a near tie termchat takes the recorded token and counts it.

    FILE is a chat saved as .jsonl, or the output of termchat run --json; - is stdin. Model, threads and everything else on
    record are used as recorded, unless a flag overrides them.

    Environment: settings
    Files: config
    Exit codes:
      0: everything is identical
      1: something differs, or the replay failed
      2, 130
    Examples:
      # Check that a reply is reproducible
      $ termchat run --json hello > a.jsonl && termchat replay a.jsonl
      # Replay only the third walk
      $ termchat replay --walk 2 a.jsonl
      # Replay a reply of another machine
      $ termchat replay --anywhere a.jsonl
      # Replay a saved chat
      $ termchat sessions export last -o chat.jsonl && termchat replay chat.jsonl
    See also: compare, run, sessions export
    """
    chosen = read_settings(given)
    from termchat.commands import replay as replaying

    sys.exit(
        replaying.replay(
            chosen, file, click.echo, partial(click.echo, err=True), as_json=as_json, walk=walk, anywhere=anywhere
        )
    )


_TRANSCRIPT = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)


@click.command("compare", cls=ManualPage, short_help="Say why two replies differ.")
@click.argument("left", type=_TRANSCRIPT, metavar="FILE")
@click.argument("right", type=_TRANSCRIPT, required=False, metavar="[OTHER]")
@click.option(
    "--node", type=int, metavar="N", help="the left reply, by the number of its node; without it, the last one"
)
@click.option("--other-node", type=int, metavar="N", help="the right reply, likewise")
@click.option("--json", "as_json", is_flag=True, help="print the report as one JSON object")
def compare(*, left: Path, right: Path | None, node: int | None, other_node: int | None, as_json: bool) -> None:
    """Find the first token at which two replies differ, and why: a knob, the order of the stages, the seed, the prompt, a
    constraint, a forced token, the model, or how its numbers were computed.

    FILE and OTHER are chats saved as .jsonl, or the output of termchat run --json; - is stdin. Without OTHER, the last reply
    in FILE is compared with its version before. No model is loaded: what the records show is drawn again from them.

    Exit codes:
      0: the tokens are identical
      1: a token differs, or a file cannot be read
      2, 130
    Examples:
      # See why two runs differ
      $ termchat compare a.jsonl b.jsonl
      # Compare the last reply of a chat with its version before
      $ termchat sessions export last | termchat compare -
    See also: replay, run, sessions export
    """
    from termchat.commands.compare_transcripts import compare as compare_files

    if left == right == Path("-"):
        raise click.UsageError("FILE and OTHER cannot both be read from stdin")
    files, nodes = (left, right), (node, other_node)
    sys.exit(compare_files(files, nodes, click.echo, lambda line: click.echo(line, err=True), as_json=as_json))


@click.command("tokens", cls=ManualPage, short_help="Print the tokens of a text.")
@click.argument("text", required=False)
@click.option("--ids", is_flag=True, help="print the ids, one per line")
@click.option(
    "--json", "as_json", is_flag=True, help="print one JSON object: id, text and bytes (base64) of each token"
)
@flags(only=("model", "default_engine", "remote_command", "model_folders"), knobs=False)
@click.pass_obj
def tokens(engine: Engine, /, *, text: str | None, ids: bool, as_json: bool, **given: Any) -> None:
    """Print the tokens of TEXT, in line, and count tokens, characters, letters and bytes.

    If TEXT is missing or "-", it is read from stdin. It is read as in a message: no chat template, no control tokens.

    Environment: settings
    Files: config, models
    Exit codes: 0, 1, 2, 130, 141
    Examples:
      # See the tokens of a text
      $ termchat tokens "How many r are in strawberry?"
      # Count the tokens of a file
      $ termchat tokens --ids < notes.txt | wc -l
    See also: run, models list
    """
    if ids and as_json:
        raise click.UsageError("choose one of --ids and --json")
    piped = text is None or text == "-"
    if piped and (sys.stdin is None or (text is None and sys.stdin.isatty())):
        raise click.UsageError("no text: pass TEXT or pipe one in")
    chosen = read_settings(given)
    from termchat.commands.tokenize import tokenize

    said = sys.stdin.buffer.read().decode("utf-8", "replace") if piped or text is None else well_formed(text)
    sys.exit(tokenize(chosen, engine, said, ids=ids, as_json=as_json))


@click.command("tune", cls=ManualPage, short_help="Find the fastest settings for a model.")
@click.argument("model", required=False, shell_complete=completers.models)
@click.option(
    "--seconds",
    type=click.IntRange(5, 3600),
    default=60,
    show_default=True,
    help="approximate measuring time in seconds",
)
@click.option("--dry-run", is_flag=True, help="measure without saving")
@click.option("--json", "as_json", is_flag=True, help="print all measurements as one JSON object")
@flags(without=_MEASURED, knobs=False)
def tune(*, model: str | None, seconds: int, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Find the fastest settings for MODEL (a name or a file) on this machine and save them for later chats.

    It tries thread counts for decoding and for prompts, and prompt batch sizes that keep results exact. Flags, variables, the
    model's settings in the model list, and config.toml override the saved values. It also tells from which acceptance on
    speculation pays, and how much at most.

    Environment: settings
    Files: config, tuned
    Examples:
      # Measure the default model, in about a minute
      $ termchat tune
      # Measure another model without saving
      $ termchat tune --dry-run --seconds 20 qwen3-0.6b
    See also: doctor, config show
    """
    chosen = read_settings({**given, "model": model})
    from termchat.commands import tune as tuning

    sys.exit(tuning.tune(chosen, seconds=seconds, dry_run=dry_run, as_json=as_json))


@click.command("doctor", cls=ManualPage, short_help="Diagnose problems and suggest fixes.")
@click.option("--json", "as_json", is_flag=True, help="print the report as one JSON object")
@flags(knobs=False)
def doctor(*, as_json: bool, **given: Any) -> None:
    """Check versions, build, devices, files, settings, terminal, models and saved chats, and suggest fixes.

    Safe to paste into a bug report: no secrets or user name, and the home folder is shown as ~.

    Environment: settings
    Files: config
    Exit codes:
      0: no problems
      1: problems were found
      2, 130
    Examples:
      # Look for problems
      $ termchat doctor
      # Write a report for a bug report
      $ termchat doctor > report.txt
    See also: config check, locate, models list
    """
    chosen = read_settings(given)
    from termchat.commands.doctor import examine

    report = examine(chosen)
    if as_json:
        import json

        click.echo(json.dumps(report.as_dict()))
    else:
        for line in report.lines():
            click.echo(line)
    sys.exit(1 if report.todo else 0)
