-- name: doctor_problems
-- What keeps unfinished calls from going on.
SELECT problem AS word, COUNT(*) AS count FROM execution
WHERE state IN ('saved', 'submitting', 'waiting', 'permitted', 'started', 'in_doubt') AND problem IS NOT NULL
GROUP BY problem ORDER BY problem;

-- name: doctor_tools
-- The tools that a worker will need.
SELECT tool AS word, COUNT(*) AS count FROM execution
WHERE state IN ('saved', 'submitting', 'waiting', 'permitted', 'started', 'in_doubt')
    AND state IN ('saved', 'submitting', 'waiting') AND runs = 'worker'
GROUP BY tool ORDER BY tool;

-- name: doctor_call_targets
-- The wake targets that unfinished calls name.
SELECT wake AS word, COUNT(*) AS count FROM execution
WHERE state IN ('saved', 'submitting', 'waiting', 'permitted', 'started', 'in_doubt') AND wake <> 'none'
GROUP BY wake ORDER BY wake;

-- name: doctor_wake_targets
-- The targets of the wakes that are owed.
SELECT target AS word, COUNT(*) AS count FROM wake
WHERE state = 'owed' AND state <> 'delivered' GROUP BY target ORDER BY target;

-- name: doctor_consuming
-- The providers that know consumption.
SELECT provider FROM consuming_provider ORDER BY provider;

-- name: doctor_unreported
-- When the first call came to its end whose provider was not told of it yet.
SELECT MIN(changed_at) AS since FROM execution WHERE report_due_at IS NOT NULL;
