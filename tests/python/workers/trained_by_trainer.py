"""A model of Hugging Face, trained by a Trainer. model.external.config: `folder`, and
what is special."""

import json
import os
import signal
import sys

import torch
import transformers
import tributary
import tributary.transformers
from torch import nn

SAMPLES = 64


class Data(torch.utils.data.Dataset):

    def __init__(self, samples, seed):
        generator = torch.Generator().manual_seed(seed)
        self.x = torch.randn(samples, 3, generator=generator)
        self.y = (self.x @ torch.tensor([1.5, -2, 0.5]) > 0).long()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return {'x': self.x[index], 'labels': self.y[index]}


class Classifier(nn.Module):

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.Tanh(),
                                 nn.Dropout(0.2), nn.Linear(8, 2))

    def forward(self, x, labels=None):
        logits = self.net(x)
        loss = nn.functional.cross_entropy(logits, labels)
        return {'loss': loss, 'logits': logits}


class Record(transformers.TrainerCallback):
    """Writes what a callback sees, and kills the worker once."""

    def __init__(self, config):
        self.config = config
        self.events = []
        self.calls = 0

    def on_step_end(self, args, state, control, **_):
        self.calls += 1
        self.events.append(['step', state.epoch, state.global_step])
        if os.environ.get('STOP_AFTER') == str(state.global_step):
            raise RuntimeError('stops')
        if self.config.get('kill') == self.calls and state.is_world_process_zero:
            marker = os.path.join(self.config['folder'], 'killed')
            if not os.path.exists(marker):
                open(marker, 'w', encoding='utf-8').close()
                os.kill(os.getpid(), signal.SIGKILL)

    def on_evaluate(self, args, state, control, metrics, **_):
        self.events.append(['evaluate', state.epoch, state.global_step,
                            metrics['eval_accuracy'], metrics['eval_loss']])

    def on_save(self, args, state, control, **_):
        self.events.append(['save', state.epoch, state.global_step])


def evaluator(model):
    """Evaluates as the job does."""
    data = Data(16, 6)

    def evaluate(piece):
        x, y = data.x[piece.indices], data.y[piece.indices]
        piece.report(loss_sum=model(x, y)['loss'] * len(y))

    return evaluate


def main():
    session = tributary.connect()
    config = session.job.config
    folder = os.path.join(config['folder'], 'trainer')
    options = {'eval_strategy': 'epoch', 'save_strategy': 'epoch', 'max_grad_norm': 0.0,
               'learning_rate': 0.05, 'weight_decay': 0.01, 'logging_steps': 2,
               **config.get('options', {})}
    record = Record(config)
    callbacks = [record]
    if config.get('stop'):
        callbacks.append(transformers.EarlyStoppingCallback(1, 10.0))
    trainer = transformers.Trainer(
        Classifier(), transformers.TrainingArguments(
            folder, num_train_epochs=config.get('epochs', 3), use_cpu=True,
            per_device_train_batch_size=config.get('batch', 8), report_to=[], **options),
        train_dataset=Data(SAMPLES, 5), eval_dataset=Data(16, 6), callbacks=callbacks,
        compute_metrics=lambda p: {
            'accuracy': float((p.predictions.argmax(-1) == p.label_ids).mean())})
    trainer = tributary.transformers.prepare(trainer, evaluate=evaluator(trainer.model))
    resume = config.get('resume') and os.path.exists(folder) and any(
        name.startswith('checkpoint-') for name in os.listdir(folder))
    trainer.train(resume_from_checkpoint=True if resume else None)
    metrics = trainer.evaluate()
    if session.is_main:
        with open(os.path.join(config['folder'], 'events.json'), 'w',
                  encoding='utf-8') as file:
            json.dump({'events': record.events, 'metrics': metrics,
                       'logs': trainer.state.log_history,
                       'best': trainer.state.best_model_checkpoint,
                       'steps': trainer.state.global_step}, file)


if __name__ == '__main__':
    sys.exit(main())
