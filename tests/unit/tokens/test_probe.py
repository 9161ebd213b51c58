"""The start-up probe refuses every tokenizer that is not the model's, in one sentence that says what is wrong."""

import base64
import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from eagle3gen.errors import TokenizerRefused
from eagle3gen.tokens.builtin.build_kimi_mini import build
from eagle3gen.tokens.family import KIMI_K25
from eagle3gen.tokens.loading import folder_of, load_tokenizer, load_tokenizer_once


def change(path, edit) -> None:
    data = json.loads(path.read_text("utf-8"))
    edit(data)
    path.write_text(json.dumps(data), "utf-8")


def renumber(folder, by: int) -> None:
    def edit(config):
        added = config["added_tokens_decoder"]
        config["added_tokens_decoder"] = {str(int(i) + by): token for i, token in added.items()}

    change(folder / "tokenizer_config.json", edit)


def test_the_bundled_tokenizer_passes(tokenizer) -> None:
    assert tokenizer.vocabulary_size == 163_840
    assert len(tokenizer.sha256) == 64


def test_the_wrong_end_token_of_the_first_attempt_is_refused(folder) -> None:
    path = folder / "tokenizer_config.json"
    path.write_text(path.read_text("utf-8").replace('"163586"', '"163533"'), "utf-8")
    with pytest.raises(TokenizerRefused, match=r"<\|im_end\|> is 163533 in .* but 163586 in kimi-k2.5"):
        load_tokenizer(str(folder))


@pytest.mark.parametrize("by", [-1, 1, 3])
def test_shifted_control_ids_are_refused(folder, by) -> None:
    renumber(folder, by)
    with pytest.raises(TokenizerRefused, match=r"\[BOS\] is"):
        load_tokenizer(str(folder))


def test_sparse_ids_that_were_renumbered_are_refused(folder) -> None:
    """A loader that closes gaps makes <|im_user|> of the wrong slot."""

    def edit(config):
        tokens = list(config["added_tokens_decoder"].values())
        config["added_tokens_decoder"] = {str(163_584 + n): token for n, token in enumerate(tokens)}

    change(folder / "tokenizer_config.json", edit)
    with pytest.raises(TokenizerRefused, match="but"):
        load_tokenizer(str(folder))


@pytest.mark.parametrize("control", ["</think>", "<|tool_call_begin|>", "<|im_end|>"])
def test_a_missing_control_string_is_refused(folder, control) -> None:
    i = str(KIMI_K25.id(control))
    change(folder / "tokenizer_config.json", lambda c: c["added_tokens_decoder"].pop(i))
    with pytest.raises(TokenizerRefused) as refused:
        load_tokenizer(str(folder))
    assert f"has no {control}, which is {i}" in str(refused.value)


def test_a_stranger_among_the_byte_pairs_is_refused(folder) -> None:
    change(folder / "tokenizer_config.json", lambda c: c["added_tokens_decoder"].update({"7": {"content": "<x>"}}))
    with pytest.raises(TokenizerRefused, match="<x> an id outside"):
        load_tokenizer(str(folder))


@pytest.mark.parametrize("name", ["tiktoken.model", "tokenizer_config.json", "config.json", "chat_template.jinja"])
def test_a_folder_without_one_of_its_files_is_refused(folder, name) -> None:
    (folder / name).unlink()
    with pytest.raises(TokenizerRefused, match=re.escape(name)):
        load_tokenizer(str(folder))


def test_the_other_files_are_not_needed(folder, tokenizer) -> None:
    """The real folder brings no tokenizer.json."""
    (folder / "tokenizer.json").unlink()
    (folder / "generation_config.json").unlink()
    assert load_tokenizer(str(folder)).sha256 == tokenizer.sha256


def test_a_damaged_line_of_ranks_is_named(folder) -> None:
    path = folder / "tiktoken.model"
    lines = path.read_text("ascii").splitlines()
    lines[16] = "not base64 at all!"
    path.write_text("\n".join(lines), "ascii")
    with pytest.raises(TokenizerRefused, match="line 17"):
        load_tokenizer(str(folder))


def test_ranks_with_a_gap_are_refused(folder) -> None:
    path = folder / "tiktoken.model"
    lines = path.read_text("ascii").splitlines()
    path.write_text("\n".join(lines[:500] + lines[501:]), "ascii")
    with pytest.raises(TokenizerRefused, match="gaps or doubles"):
        load_tokenizer(str(folder))


def test_ranks_without_all_bytes_are_refused(folder) -> None:
    path = folder / "tiktoken.model"
    lines = path.read_text("ascii").splitlines()
    lines[65] = base64.b64encode(b"never seen").decode() + " 65"
    path.write_text("\n".join(lines), "ascii")
    with pytest.raises(TokenizerRefused, match="lacks the byte"):
        load_tokenizer(str(folder))


def undeclared(folder) -> None:
    change(folder / "config.json", lambda c: c.pop("ranks_sha256"))


def test_changed_ranks_change_the_fingerprint(folder, tokenizer) -> None:
    undeclared(folder)
    path = folder / "tiktoken.model"
    lines = path.read_text("ascii").splitlines()
    path.write_text("\n".join(lines[:-1]), "ascii")
    assert load_tokenizer(str(folder)).sha256 != tokenizer.sha256


def test_ranks_are_read_anew_and_never_from_a_cache(folder, tokenizer) -> None:
    """tiktoken's own loader caches by path: changed files at the same path would load as the old ones."""
    undeclared(folder)
    assert load_tokenizer(str(folder)).sha256 == tokenizer.sha256
    path = folder / "tiktoken.model"
    path.write_text("\n".join(path.read_text("ascii").splitlines()[:-50]), "ascii")
    assert load_tokenizer(str(folder)).encoding.base_size == tokenizer.encoding.base_size - 50


def test_a_template_that_ends_elsewhere_is_refused(folder) -> None:
    path = folder / "chat_template.jinja"
    path.write_text(path.read_text("utf-8").replace("{%- else -%}<think>{%- endif -%}", "{%- endif -%}"), "utf-8")
    with pytest.raises(TokenizerRefused, match="does not end with"):
        load_tokenizer(str(folder))


def test_a_template_that_strips_is_refused(folder) -> None:
    path = folder / "chat_template.jinja"
    path.write_text(path.read_text("utf-8").replace("{{ content }}", "{{ content | trim }}"), "utf-8")
    with pytest.raises(TokenizerRefused, match="changes or drops the system"):
        load_tokenizer(str(folder))


@pytest.mark.parametrize(
    ("written", "instead", "part"),
    [
        ("{{ reasoning }}", "", "thinking"),
        ("{{ call.function.arguments }}", "{{ call.function.arguments | length }}", "arguments"),
        ("{{ tools_ts_str }}", "{{ tools | tojson }}", "tools"),
        ("{{ '## Return of '", "{{ 'x' }}{%- continue -%}{{ ''", "result"),
    ],
)
def test_a_template_that_loses_a_part_of_a_tool_loop_is_refused(folder, written, instead, part) -> None:
    path = folder / "chat_template.jinja"
    before = path.read_text("utf-8")
    path.write_text(before.replace(written, instead), "utf-8")
    assert path.read_text("utf-8") != before
    with pytest.raises(TokenizerRefused, match=f"changes or drops the {part}"):
        load_tokenizer(str(folder))


def test_a_template_inside_the_configuration_is_read(folder, tokenizer) -> None:
    """Older folders have it there, plain or as one of a list."""
    source = (folder / "chat_template.jinja").read_text("utf-8")
    (folder / "chat_template.jinja").unlink()
    for written in (source, [{"name": "other", "template": "x"}, {"name": "default", "template": source}]):
        change(folder / "tokenizer_config.json", lambda c, w=written: c.update(chat_template=w))
        assert load_tokenizer(str(folder)).sha256 == tokenizer.sha256


@pytest.mark.parametrize("name", ["chat_template.jinja", "tokenizer_config.json", "config.json"])
def test_a_file_that_is_no_text_is_refused(folder, name) -> None:
    (folder / name).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TokenizerRefused, match=re.escape(f"{name} is not UTF-8")):
        load_tokenizer(str(folder))


def test_ranks_that_changed_places_are_refused(folder) -> None:
    """No count would ever show it: the wrong ids are as many as the right ones."""
    path = folder / "tiktoken.model"
    lines = path.read_text("ascii").splitlines()
    first, second = lines[700].split(), lines[701].split()
    lines[700], lines[701] = f"{first[0]} {second[1]}", f"{second[0]} {first[1]}"
    path.write_text("\n".join(lines) + "\n", "ascii")
    with pytest.raises(TokenizerRefused, match="damaged or another model's"):
        load_tokenizer(str(folder))


def test_ranks_as_many_as_the_model_s_must_be_the_published_ones(folder) -> None:
    undeclared(folder)
    path = folder / "tiktoken.model"
    lines = path.read_text("ascii").splitlines()
    more = (base64.b64encode(f"token {n}".encode()).decode() + f" {n}" for n in range(len(lines), 163_584))
    path.write_text("\n".join([*lines, *more]), "ascii")
    with pytest.raises(TokenizerRefused, match="b6c497a7469b"):
        load_tokenizer(str(folder))


def test_more_ranks_than_the_model_has_room_for_are_refused(folder) -> None:
    path = folder / "tiktoken.model"
    lines = path.read_text("ascii").splitlines()
    more = (base64.b64encode(f"token {n}".encode()).decode() + f" {n}" for n in range(len(lines), 163_585))
    path.write_text("\n".join([*lines, *more]), "ascii")
    with pytest.raises(TokenizerRefused, match="163,585 ranks, more than"):
        load_tokenizer(str(folder))


@pytest.mark.parametrize("nested", [False, True])
def test_another_vocabulary_size_is_refused(folder, nested) -> None:
    size = {"vocab_size": 160_000}
    change(folder / "config.json", lambda c: c.update({"text_config": size} if nested else size))
    with pytest.raises(TokenizerRefused, match="vocabulary of 160000"):
        load_tokenizer(str(folder))


@pytest.mark.parametrize("ends", [163_533, [163_585]])
def test_another_end_token_in_the_generation_config_is_refused(folder, ends) -> None:
    change(folder / "generation_config.json", lambda c: c.update(eos_token_id=ends))
    with pytest.raises(TokenizerRefused, match=r"generation_config.json ends a turn with .* 163586"):
        load_tokenizer(str(folder))


def test_one_end_token_of_several_is_enough(folder, tokenizer) -> None:
    change(folder / "generation_config.json", lambda c: c.update(eos_token_id=[163_585, 163_586]))
    assert load_tokenizer(str(folder)).sha256 == tokenizer.sha256


@pytest.mark.parametrize(
    ("added", "sentence"),
    [
        ({"163533": {"content": "<|im_end|>"}}, r"<\|im_end\|> is both"),
        ({"163589": {"content": ""}}, "damaged list"),
        ({"x": {"content": "<|new|>"}}, "damaged list"),
        ({"163589": "<|new|>"}, "damaged list"),
        ({"42": {"content": "<|new|>"}}, "outside the control ids"),
        ({"0163586": {"content": "<|new|>"}}, "two names"),
    ],
)
def test_a_list_of_added_tokens_that_contradicts_itself_is_refused(folder, added, sentence) -> None:
    change(folder / "tokenizer_config.json", lambda c: c["added_tokens_decoder"].update(added))
    with pytest.raises(TokenizerRefused, match=sentence):
        load_tokenizer(str(folder))


def test_transformers_own_conversion_is_refused(folder) -> None:
    """Saved again by transformers, the folder has no `tiktoken.model`: its pattern would be the wrong one."""
    from transformers import AutoTokenizer

    loaded = AutoTokenizer.from_pretrained(folder)
    saved = folder / "saved"
    loaded.save_pretrained(saved)
    (saved / "config.json").write_bytes((folder / "config.json").read_bytes())
    with pytest.raises(TokenizerRefused, match=re.escape(str(saved))):
        load_tokenizer(str(saved))


def test_eight_threads_load_one_tokenizer_once() -> None:
    with ThreadPoolExecutor(8) as pool:
        loaded = list(pool.map(load_tokenizer_once, ["builtin:kimi-mini"] * 16))
    assert len({id(one) for one in loaded}) == 1


def test_a_template_that_is_none_is_refused(folder) -> None:
    (folder / "chat_template.jinja").write_text("{% if %}", "utf-8")
    with pytest.raises(TokenizerRefused):
        load_tokenizer(str(folder))


def test_an_unknown_model_is_refused_with_what_is_known(folder) -> None:
    change(folder / "config.json", lambda c: c.update(model_type="llama"))
    with pytest.raises(TokenizerRefused, match=r"'llama'.*known: kimi-k2.5"):
        load_tokenizer(str(folder))


@pytest.mark.parametrize("text", ["[]", "{", "\xff"])
def test_a_configuration_that_is_no_object_is_refused(folder, text) -> None:
    (folder / "config.json").write_text(text, "latin-1")
    with pytest.raises(TokenizerRefused, match=r"config\.json"):
        load_tokenizer(str(folder))


def test_a_name_that_is_no_folder_is_refused() -> None:
    with pytest.raises(TokenizerRefused, match="the only builtin tokenizer"):
        load_tokenizer("builtin:nothing")


def test_the_build_script_writes_the_same_bytes_again(tmp_path) -> None:
    build(tmp_path)
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (folder_of("builtin:kimi-mini") / path.name).read_bytes(), path.name


def test_the_folder_loads_in_transformers_with_the_true_ids() -> None:
    """Without remote code; so other tools can read what we write."""
    from transformers import AutoTokenizer

    loaded = AutoTokenizer.from_pretrained(folder_of("builtin:kimi-mini"))
    assert loaded.convert_tokens_to_ids("<|im_end|>") == 163_586
    assert loaded.convert_tokens_to_ids("</think>") == 163_607
