"""How a job ends: by its program, and when its last evaluation fails."""

import os
import unittest

import tributary

import support

WORKER = os.path.join(support.WORKERS, 'ending.py')
# Four steps in an epoch.
JOB = support.external_job(samples=32, evaluation=8, more="""
    optimizer { adamw { learning_rate: 0.05 } } batch { global: 8 micro_batches: 4 }""")


@support.needs_torch
class EndingTest(support.JobTest):

    def test_a_program_ends_the_job_after_the_same_step_with_any_number_of_workers(self):
        job = self.write_job('job', JOB + 'epochs: 4 evaluation { every_steps: 4 }')
        expected = self.train('whole', job, WORKER, 2, {'epochs': 2})
        for workers in (1, 2, 4):
            ended = self.train(f'{workers} workers', job, WORKER, workers,
                               environment={'END_AFTER': 2})
            self.assertEqual(ended['steps'], 8)
            self.assertEqual(ended['weights_sha256'], expected['weights_sha256'])
            self.assertEqual(ended['evaluation'], expected['evaluation'])
            self.assertIn('program', ended['stop_reason'])
        weights = tributary.load(os.path.join(self.folder, '2 workers'))
        self.assertIn(f"the module has {weights['0.weight'].flatten().tolist()}",
                      self.log('2 workers', 1))
        # The counter of batch norm is that of the job's steps.
        self.assertEqual(weights['1.num_batches_tracked'], 8)

    def test_a_server_is_killed_while_workers_wait_for_the_end_of_the_job(self):
        job = self.write_job('job', JOB + 'epochs: 4 evaluation { disabled: true }')
        expected = self.train('whole', job, WORKER, 2, {'epochs': 2})
        kills = os.path.join(self.folder, 'kills')
        os.mkdir(kills)
        for name in ('reached', 'stopped', 'waits'):
            os.mkfifo(os.path.join(kills, name))
        ended = self.train('ended', job, WORKER, 2,
                           environment={'END_AFTER': 2, 'KILLS': kills})
        self.assertFalse(os.path.exists(kills))
        self.assertGreater(ended['attempt'], expected['attempt'])
        self.assertEqual(ended['steps'], 8)
        self.assertEqual(ended['weights_sha256'], expected['weights_sha256'])

    def test_a_program_cannot_end_a_job_of_other_exchanges(self):
        for name, more in (('all_reduce', 'exchange { all_reduce {} }'),
                           ('local_steps', 'exchange { parameter_server { consistency { '
                            'local_steps { inner_steps: 2 } } } }')):
            job = self.write_job(name, JOB + more + ' epochs: 4 evaluation { disabled: true }')
            error = self.assert_fails([name, 'end_job', 'stop_when'], name, job, WORKER,
                                      workers=2, environment={'END_AFTER': 2})
            self.assertEqual(error.exit_code, 1)

    def test_a_job_whose_last_evaluation_fails_resumes_with_it(self):
        job = self.write_job('job', JOB + 'epochs: 2')
        expected = self.train('whole', job, WORKER, 2)
        for kind, words in (('usage', ['no metric']), ('crash', ['RuntimeError'])):
            with self.subTest(kind):
                self.assert_fails(words, kind, job, WORKER, workers=2,
                                  environment={'FAILS': kind})
                run = os.path.join(self.folder, kind)
                self.assertTrue(os.path.exists(os.path.join(
                    run, 'checkpoints', 'step-00000008', 'manifest.json')),
                    os.listdir(run))
                resumed = self.train(kind, job, WORKER, arguments=['--resume', 'auto'])
                self.assertEqual(resumed['weights_sha256'], expected['weights_sha256'])
                self.assertEqual(resumed['evaluation'], expected['evaluation'])


if __name__ == '__main__':
    unittest.main()
