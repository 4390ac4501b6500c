"""Fine-tunes a BERT to classify texts, with Hugging Face's Trainer."""

import torch
from transformers import (BertConfig, BertForSequenceClassification, Trainer,
                          TrainingArguments, set_seed)


class Texts(torch.utils.data.Dataset):
    """Random tokens, of which the first decides the class."""

    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.tokens = torch.randint(5, 50, (count, 12), generator=generator)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return {'input_ids': self.tokens[index],
                'labels': (self.tokens[index, 0] > 25).long()}


def accuracy(prediction):
    return {'accuracy': float(
        (prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def main():
    set_seed(1)
    model = BertForSequenceClassification(BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, num_labels=2))
    arguments = TrainingArguments(
        'text_trainer', num_train_epochs=2, per_device_train_batch_size=16, use_cpu=True,
        learning_rate=0.002, eval_strategy='epoch', save_strategy='epoch', logging_steps=4,
        load_best_model_at_end=True, max_grad_norm=0.0, report_to=[])
    trainer = Trainer(model=model, args=arguments, train_dataset=Texts(256, 1),
                      eval_dataset=Texts(64, 2), compute_metrics=accuracy)
    trainer.train()
    print(trainer.evaluate())
    trainer.save_model()


if __name__ == '__main__':
    main()
