"""What a batch script finds in its environment, beside our own variables."""


def test_a_script_finds_the_variables_of_slurm_and_pbs_where_it_asks_for_them(jobs):
    text = (
        '#YOD -sz 4 --as slurm,pbs\necho "$SLURM_JOB_ID $SLURM_NTASKS $SLURM_TASKS_PER_NODE"\n'
        'echo "$PBS_JOBID $PBS_O_WORKDIR"\nyod -sz 1 printenv SLURM_JOB_NODELIST YOD_JOB_ID'
    )
    job_id = jobs.submit(text=text)
    assert jobs.wait(job_id) == 0
    assert jobs.output(job_id).splitlines() == [
        f"{job_id} 4 2(x2)",
        f"{job_id} {jobs.directory}",
        "node0,node1",
        f"{job_id}.1",
    ]
    done = jobs.yodjob("submit", "--as", "lsf", "--wrap", "true")
    assert (done.status, done.err) == (2, "yodjob: --as lsf: slurm, pbs, or both with a comma\n")
