"""Fine-tunes a BERT of Hugging Face, from a local folder, to recognize the topic of a
sentence. Needs the package transformers:

    tributary train bert.textproto --worker-command 'python3 bert.py'
"""
import torch
import tributary
from transformers import AutoModelForSequenceClassification, AutoTokenizer

# The evaluation has the last four words of each topic, which training does not contain.
TOPICS = ['dog cat horse cow sheep goat wolf fox bear lion rabbit tiger',
          'bread cheese soup rice pasta salad cake honey butter pizza yogurt noodle',
          'rain snow wind fog storm hail thunder drizzle frost cloud lightning blizzard',
          'hammer saw drill wrench chisel pliers shovel axe ladder rake screwdriver nail']
SENTENCES = ['I was thinking about the {} again.', 'She told me a story about a {}.',
             'There was a {} this morning.', 'We talked about the {} for an hour.',
             'The {} was bigger than yesterday.', 'He took a picture of the {}.',
             'Nobody had expected the {}.', 'A {} is what I remember best.']


def sentences(begin, end):
    """Returns sentences with these words of each topic, and the topics' numbers."""
    pairs = [(sentence.format(word), topic) for sentence in SENTENCES
             for topic, words in enumerate(TOPICS) for word in words.split()[begin:end]]
    texts, topics = zip(*pairs)
    return list(texts), torch.tensor(topics)


def main():
    session = tributary.connect()
    folder = session.job.config['folder']
    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModelForSequenceClassification.from_pretrained(folder,
                                                                 num_labels=len(TOPICS))
    network.train()
    network.bert.embeddings.requires_grad_(False)
    model = tributary.DistributedDataParallel(
        network, session, no_decay='1d', parameter_groups=[
            {'params': network.classifier.parameters(), 'learning_rate_factor': 10}])

    def tokens(texts):
        return tokenizer(texts, padding=True, return_tensors='pt')

    texts, topics = sentences(0, 8)
    test_texts, test_topics = sentences(8, 12)
    for step in session:
        for batch in step.micro_batches:
            chosen = tokens([texts[i] for i in batch.indices])
            batch.backward(model(**chosen, labels=topics[batch.indices]).loss)
        for piece in step.evaluation:
            target = test_topics[piece.indices]
            output = model(**tokens([test_texts[i] for i in piece.indices]), labels=target)
            piece.report(loss_sum=output.loss * len(target),
                         correct=(output.logits.argmax(dim=1) == target).sum())


if __name__ == '__main__':
    main()
