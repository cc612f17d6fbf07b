"""The way from a prompt to token ids: templates, plain text, and what stands between turns."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from treeopt.errors import InputError
from treeopt.measure.encode import EncodedPrompt, encode_prompts
from treeopt.measure.prompts import Prompt

HI = Prompt("a", "all", ("hi you",))
TALK = Prompt("a", "all", ("hi", "be brief", "you"))
WORDS = ["<s>", "hi", "you", "<user>", "<system>", "<answer>", "be", "brief"]
CHAT_TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'system' and m.content == 'you' %}{{ raise_exception('no') }}"
    "{% endif %}{{ '<' + (m.role if m.role != 'assistant' else 'answer') + '> ' + m.content + ' ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<answer>' }}{% endif %}"
)


def tokenizer(template: str | None = CHAT_TEMPLATE) -> PreTrainedTokenizerFast:
    """A word is a token, every plain text begins with <s>, unknown words are dropped."""
    words = Tokenizer(models.BPE({word: i for i, word in enumerate(WORDS)}, []))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.add_tokens(WORDS[1:])
    words.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", chat_template=template)


def encode_prompt(words, prompt, template, **options):
    """The ids before the first answer."""
    return list(encode_prompts(words, [prompt], template, **options)[0].ids)


def ids(text: str) -> list[int]:
    return [WORDS.index(word) for word in text.split()]


def test_plain_text_gets_the_special_tokens_of_the_tokenizer_and_no_template():
    for template in (None, CHAT_TEMPLATE):
        assert encode_prompt(tokenizer(template), HI, "none") == ids("<s> hi you")


@pytest.mark.parametrize("template", ["chat", "auto"])
def test_a_chat_template_is_used_where_there_is_one(template):
    assert encode_prompt(tokenizer(), HI, template) == ids("<user> hi you <answer>")
    expected = ids("<system> be brief <user> hi you <answer>")
    assert encode_prompt(tokenizer(), HI, template, system="be brief") == expected


@pytest.mark.parametrize("template", ["chat", "auto"])
def test_without_a_chat_template_the_user_has_to_choose(template):
    with pytest.raises(InputError, match="--template none"):
        encode_prompt(tokenizer(None), HI, template)


def test_what_cannot_be_encoded_is_refused():
    with pytest.raises(InputError, match="a system prompt needs a chat template"):
        encode_prompt(tokenizer(), HI, "none", system="be brief")
    with pytest.raises(InputError, match="prompt 'a': the chat template refuses it"):
        encode_prompt(tokenizer(), HI, "chat", system="you")
    with pytest.raises(InputError, match="choose one of auto, chat, none"):
        encode_prompt(tokenizer(), HI, "plain")
    bare = tokenizer()
    bare.backend_tokenizer.post_processor = processors.Sequence([])
    with pytest.raises(InputError, match="prompt 'a': the tokenizer makes no tokens of it"):
        encode_prompt(bare, Prompt("a", "all", ("zzz",)), "none")


def test_later_turns_hold_what_stands_between_two_answers():
    """What is encoded is, with the answers put in, the template's own text of the whole conversation."""
    encoded = encode_prompts(tokenizer(), [TALK], "chat")[0]
    assert encoded.ids == tuple(ids("<user> hi <answer>"))
    assert encoded.later == (tuple(ids("<user> be brief <answer>")), tuple(ids("<user> you <answer>")))


@pytest.mark.parametrize("turns", [1, 2])
def test_no_more_turns_than_asked_for(turns):
    assert len(encode_prompts(tokenizer(), [TALK], "chat", turns=turns)[0].later) == turns - 1


def test_plain_text_has_one_turn():
    assert encode_prompts(tokenizer(), [TALK], "none")[0].later == ()


def test_a_template_that_rewrites_earlier_turns_is_refused():
    last_only = "{{ '<user> ' + messages[-1].content + ' <answer>' }}"
    assert encode_prompt(tokenizer(last_only), TALK, "chat", turns=1) == ids("<user> hi <answer>")
    with pytest.raises(InputError, match="prompt 'a': the chat template rewrites earlier turns"):
        encode_prompts(tokenizer(last_only), [TALK], "chat")


@pytest.mark.parametrize(("ended", "said"), [("eos", (5, 6)), ("limit", (5, 6, 7))])
def test_the_next_turn_stands_behind_all_that_was_said_without_its_end_token(ended, said):
    first = EncodedPrompt("t", "c", (1, 2), ((3,), (4, 4)))
    second = first.following([5, 6, 7], ended)
    assert second == EncodedPrompt("t", "c", (1, 2, *said, 3), ((4, 4),), turn=1)
    assert second is not None
    third = second.following([8], "limit")
    assert third is not None
    assert (third.ids, third.turn) == ((1, 2, *said, 3, 8, 4, 4), 2)
    assert third.following([9], "limit") is None
    assert [turn.key for turn in (first, second, third)] == ["t", "t#1", "t#2"]
