"""Trains the digits of digits.py with Hugging Face's Trainer:
`python3 with_transformers.py`."""
import digits
import tributary
import tributary.transformers
from torch import nn
from transformers import Trainer, TrainingArguments


class Classifier(nn.Module):

    def __init__(self):
        super().__init__()
        self.network = digits.make_network()

    def forward(self, x, labels):
        logits = self.network(x)
        return {'loss': nn.functional.cross_entropy(logits, labels), 'logits': logits}


def data(samples, seed):
    return [{'x': x, 'labels': y} for x, y in zip(*digits.make_digits(samples, seed))]


def accuracy(prediction):
    return {'accuracy': float(
        (prediction.predictions.argmax(1) == prediction.label_ids).mean())}


def main():
    arguments = TrainingArguments(
        'checkpoints', num_train_epochs=4, per_device_train_batch_size=32, use_cpu=True,
        learning_rate=0.005, max_grad_norm=1.0, eval_strategy='epoch', report_to=[])
    trainer = Trainer(
        model=Classifier(), args=arguments, train_dataset=data(digits.SAMPLES, seed=1),
        eval_dataset=data(digits.TEST_SAMPLES, seed=2), compute_metrics=accuracy)
    trainer = tributary.transformers.prepare(trainer)
    trainer.train()
    if trainer.is_world_process_zero():
        print('accuracy', trainer.evaluate()['eval_accuracy'])


if __name__ == '__main__':
    tributary.launch(main, workers=2, job=dict(
        train_samples=digits.SAMPLES, batch=64, micro_batches=2, epochs=4, clip_norm=1.0,
        optimizer=dict(adamw=dict(learning_rate=0.005))))
