"""Words of other tools for options, and what to type here."""

import re
from collections.abc import Container

# `type` → the words; `{}` is the value that was typed. Of one word, the first hint whose option a command has is taken.
_OPTIONS = {
    "task={}": "data dataset dataset_name",
    "task=jsonl task.path={}": "data_path dataset_path data_file data_files dataset.path data.path input input_file "
    "file",
    "task.prompt_field={}": "task.prompt task.prompt_column task.input_field",
    "task.human_field={}": "task.human task.reference_field task.target task.target_field",
    "model={}": "lm model_name model_name_or_path model_path model_id pretrained checkpoint",
    "model=openai model.path=NAME model.base_url={}": "base_url api_base url endpoint",
    "model=openai model.path=NAME model.api_key_env=VARIABLE": "api_key openai_api_key",
    "model.dtype=float16": "precision fp16 half load_in_8bit load_in_4bit bf16",
    "model.chat_template=true": "chat apply_chat_template chat_template use_chat_template",
    "model.instruction={}": "system_prompt system_instruction instruction",
    "decoder=nucleus decoder.p={}": "top_p",
    "decoder=top_k decoder.k={}": "top_k",
    "decoder.temperature={}": "temperature temp",
    "decoder=beam decoder.num_beams={}": "num_beams beams beam_size beam_width",
    "max_new_tokens={}": "max_length max_tokens max_gen_toks max_gen_len max_len gen_length gen_len length",
    "min_new_tokens={}": "min_length min_tokens",
    "num_examples={}": "limit n num_texts num_prompts max_examples max_samples size",
    "samples={}": "num_return_sequences num_generations best_of",
    "samples={0} for texts of each prompt, num_examples={0} for prompts": "n_samples num_samples",
    "runtime.batch_size={}": "batch batchsize",
    "runtime.device=cuda": "cuda use_cuda",
    "intervals=200 (replicates; 0: none)": "bootstrap bootstrap_iters n_bootstrap ci confidence",
    "seed={}": "seeds random_seed random_state",
    "tracker=wandb, mlflow or tensorboard": "wandb mlflow report_to logger log_to",
    "runtime.device_map=auto for one model over all GPUs, runtime.workers=N for N copies": (
        "gpu gpus num_gpus n_gpus tensor_parallel_size devices parallelize"
    ),
    "outputs_dir={}": "output_dir output out out_dir outputs save_to save_dir",
    "output={}": "output_dir",
    "task.tokens={} (which tokens are counted)": "tokenizer",
}
# Hint → the words that no option stands for.
_ANSWERS = {
    "decoder=greedy draws no token, decoder=ancestral, nucleus, top_k, … do": "do_sample sample",
    "model=vllm and model=openai are engines; model=./FOLDER or OWNER/NAME runs with transformers": "backend engine",
    "the same command resumes; what is finished is not computed again": "resume overwrite force use_cache cache",
    "type plan_only=true": "dry_run dryrun plan",
    "type -v": "verbose debug",
    "examples for the model are part of the prompts of a task": "num_fewshot shots fewshot",
    "a text ends at the model's end of text or after max_new_tokens": "stop stop_sequences stop_strings until",
    "a task has the prompts: task=jsonl task.path=FILE with the fields prompt and human": "prompt prompts",
}


def explain_foreign_option(word: str, value: str, options: Container[str]) -> str | None:
    """Say what to type for an option of another tool, given the options that a command has; None if it is unknown."""
    for typed, words in _OPTIONS.items():
        if word in words.split() and re.split(r"[.=]", typed)[0] in options:
            return f"type {typed.format(value or '…')}"
    return next((answer for answer, words in _ANSWERS.items() if word in words.split()), None)
