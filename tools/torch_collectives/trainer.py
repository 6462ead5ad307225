"""Hugging Face's Trainer on FSDP2 (accelerate), a few steps with NCCL and with foreshard's collectives from the same
weights and data. Prints the losses, which are to be compared. torchrun, a GPU each: trainer.py nccl|foreshard."""

import os
import sys

os.environ.update(
    ACCELERATE_USE_FSDP="true", FSDP_VERSION="2", FSDP_AUTO_WRAP_POLICY="TRANSFORMER_BASED_WRAP",
    FSDP_TRANSFORMER_CLS_TO_WRAP="LlamaDecoderLayer", FSDP_RESHARD_AFTER_FORWARD="true",
    FSDP_STATE_DICT_TYPE="SHARDED_STATE_DICT", FSDP_CPU_RAM_EFFICIENT_LOADING="false",
)  # fmt: skip

import torch  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments  # noqa: E402

STEPS, BATCH, LENGTH, VOCABULARY = 10, 2, 1024, 32000


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        tokens = torch.randint(0, VOCABULARY, (LENGTH,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


class Collectives(TrainerCallback):
    def on_train_begin(self, args, state, control, model=None, **kwargs):
        import foreshard.collectives

        served = foreshard.collectives.enable(model)
        assert not any(one.reason for one in served), served
        print(served, flush=True)


def main():
    training = TrainingArguments(
        output_dir="/tmp/trainer", per_device_train_batch_size=BATCH, max_steps=STEPS, bf16=True, learning_rate=1e-4,
        logging_steps=1, save_strategy="no", report_to="none", disable_tqdm=True,
    )  # fmt: skip
    config = LlamaConfig(hidden_size=2048, intermediate_size=5632, num_hidden_layers=8, num_attention_heads=16,
                         num_key_value_heads=8, vocab_size=VOCABULARY, use_cache=False)  # fmt: skip
    torch.manual_seed(0)
    with training.device:
        model = LlamaForCausalLM(config)
    callbacks = [Collectives()] if sys.argv[1] == "foreshard" else []
    trainer = Trainer(model=model, args=training, train_dataset=Tokens(), callbacks=callbacks)
    trainer.train()
    if training.process_index == 0:
        print(sys.argv[1], "losses", [row["loss"] for row in trainer.state.log_history if "loss" in row], flush=True)


main()
