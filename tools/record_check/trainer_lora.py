"""Hugging Face's Trainer with LoRA on FSDP2: PEFT's where it is installed, else adapters of plain Linear layers."""

import common
import torch
from accelerate_loop import configure
from torch import nn


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        tokens = torch.randint(0, common.VOCABULARY, (common.LENGTH,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


class LoraLinear(nn.Module):
    def __init__(self, base, rank=16):
        super().__init__()
        self.base = base
        self.a = nn.Linear(base.in_features, rank, bias=False)
        self.b = nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x):
        return self.base(x) + self.b(self.a(x))


def add_lora(model):
    try:
        from peft import LoraConfig, get_peft_model

        return get_peft_model(model, LoraConfig(r=16, target_modules=["q_proj", "v_proj"]))
    except ImportError:
        model.requires_grad_(False)
        for layer in model.model.layers:
            for name in ("q_proj", "v_proj"):
                setattr(layer.self_attn, name, LoraLinear(getattr(layer.self_attn, name)))
        return model


def main():
    parsed = common.options()
    configure(parsed, "LlamaDecoderLayer")
    from foreshard import adapters
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

    class Steps(TrainerCallback):
        """Prefetches as the setting says, and measures where the recorder does not."""

        def on_train_begin(self, args, state, control, model=None, **kwargs):
            blocks = [m for m in model.modules() if type(m).__name__ == "FSDPLlamaDecoderLayer"]
            common.set_prefetch(blocks, parsed.prefetch)
            self.measured = common.Measured(parsed) if parsed.setting != "recorded" else None
            if self.measured is not None:
                self.measured.__enter__()

        def on_step_end(self, args, state, control, **kwargs):
            if self.measured is not None:
                self.measured.step()

    callbacks = [Steps()]
    if parsed.setting == "recorded":
        callbacks.append(adapters.trainer_callback(parsed.recording))
    training = TrainingArguments(
        output_dir=str(parsed.out / "trainer"),
        per_device_train_batch_size=common.BATCH,
        max_steps=common.STEPS,
        bf16=True,
        learning_rate=1e-5,
        logging_steps=1000,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    config = LlamaConfig(hidden_size=2048, intermediate_size=5632, num_hidden_layers=8, num_attention_heads=16,
                         num_key_value_heads=8, vocab_size=common.VOCABULARY, use_cache=False)  # fmt: skip
    torch.manual_seed(0)
    with training.device:
        model = add_lora(LlamaForCausalLM(config))
    Trainer(model=model, args=training, train_dataset=Tokens(), callbacks=callbacks).train()


main()
