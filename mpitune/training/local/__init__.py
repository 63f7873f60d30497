"""Local training (Liu, Cao, Watanabe, Zhao, Yu and Zhu, EMNLP-CoNLL 2012): weights for each sentence to translate.

Phase 1 decodes the training data once with the global weights and keeps the lists. Phase 2 retrieves the nearest
training sentences of each sentence, learns weights from their lists, and translates the sentence with these weights.

training_lists   `training_data`: the training data with their lists
retrieval        `Retrieval`: the training sentences nearest to a sentence, searched for on all ranks
learning         `learner`: learns the weights of a sentence
translation      `Translator`: translates with them, and explains them
"""
