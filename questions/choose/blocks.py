"""The choice as blocks: what to take for the stated line, or for each line, why, and what to do next."""

from __future__ import annotations

import shlex

from questions.choose import side_by_side_words, state_words, words
from questions.choose.judgement import Choice
from runner.choice.model import Grade
from runner.design.blocks import Block, Heading, Note, Paragraph, Table, TableCell
from runner.design.question import Next, Said

TONES: dict[int, str] = {Grade.FITS: "good", Grade.LITTLE: "warn"}


def say(choice: Choice, where: str) -> Said:
    """The answer in words. ``where``: the run folder, as commands name it."""
    return Said(
        line=words.in_a_line(choice),
        headline=words.page_headline(choice),
        order=[one.vpn for one in choice.answer.candidates] if choice.answer else _named_by_bands(choice),
        brief=_brief(choice),
        whole=_whole(choice, where),
        beside=[side_by_side_words.table(choice.beside)] if choice.beside else [],
        steps=next_steps(choice, where),
    )


def _named_by_bands(choice: Choice) -> list[str]:
    return [*dict.fromkeys(vpn for band in choice.bands for vpn in band.named)]


def _brief(choice: Choice) -> list[Block]:
    """The answer for the stated line, or the lines with the VPNs for each; then what was not measured."""
    blocks: list[Block] = [
        Paragraph(words.headline(choice), "strong"),
        *_paragraphs([words.seen_path(choice)], True),
    ]
    if choice.answer is None:
        rows: list[list[str | TableCell]] = [
            [row.lines, TableCell(row.vpns, tone=TONES.get(row.grade, ""))] for row in words.lines(choice)
        ]
        blocks.append(Table("", [], rows))
    else:
        blocks += _paragraphs(words.why_not(choice.answer), True)
        blocks += _paragraphs([state_words.steadiness(choice), words.about_musts(choice), words.what_changes(choice)])
    blocks += _paragraphs([state_words.disturbance(choice), words.kin(choice), *words.failure_sentences(choice)])
    return [*blocks, *(Paragraph(sentence, "caveat") for sentence in [words.not_measured(choice)] if sentence)]


def _paragraphs(sentences: list[str], soft: bool = False) -> list[Block]:
    return [Paragraph(sentence, "soft" if soft else "") for sentence in sentences if sentence]


def _whole(choice: Choice, where: str) -> list[Block]:
    """The answer in a sentence, the lines with the VPNs for each, why the others are out, and what would change it.
    Without ``where``, no command."""
    said = choice.answer
    notes = [words.seen_path(choice), *(words.why_not(said) if said else [])]
    notes += [state_words.disturbance(choice), state_words.steadiness(choice), words.about_musts(choice)]
    notes += [words.what_changes(choice), words.kin(choice), *words.failure_sentences(choice)]
    notes += [words.not_measured(choice)]
    if where and (command := words.measures_others(choice, where)):
        notes.append(f"To measure more of them: {command}")
    notes += [f"Say yours: {words.say_yours(where)}"] if where and said is None else []
    rows: list[list[str | TableCell]] = [[row.lines, row.vpns] for row in words.lines(choice)]
    return [
        Heading("Which VPN for your line"),
        Paragraph(words.headline(choice), "strong"),
        list(map(Note, filter(None, notes))),
        Table("" if said is None else "For every line", ["your line", "VPN"], rows),
        *([side_by_side_words.table(choice.beside)] if choice.beside else []),
    ]


def next_steps(choice: Choice, where: str) -> list[Next]:
    """What to do next."""
    folder, said = shlex.quote(where), choice.answer
    steps = [Next("Read", f"{where}/report.html")]
    if said is None and not choice.machine.forbids:
        steps.append(Next("Say yours", words.say_yours(where)))
    elif said and said.named and said.grade < Grade.SHORT:
        steps.append(Next("Set it up", f"vpneval recipe {shlex.quote(said.named[0])} --run {folder}"))
    steps += [Next("Find out", command) for command in words.to_find_out(choice)]
    if command := words.measures_others(choice, where):
        steps.append(Next("Try others", command))
    if choice.unsettled or state_words.is_unwatched(choice):
        steps.append(Next("Be surer", f"vpneval more {folder}"))
    return steps
