-- name: executions_of_instance
SELECT * FROM execution
WHERE provider = :provider AND instance_id = :instance_id AND number < :before
ORDER BY number DESC LIMIT :limit;

-- name: executions_of_instance_in_state
SELECT * FROM execution
WHERE provider = :provider AND instance_id = :instance_id AND state = :state AND number < :before
ORDER BY number DESC LIMIT :limit;

-- name: executions_of_group
SELECT * FROM execution
WHERE provider = :provider AND instance_id = :instance_id AND "group" = :group AND number < :before
ORDER BY number DESC LIMIT :limit;

-- name: executions_of_group_in_state
-- By the index of groups: a group is smaller than what an instance has in one state.
SELECT * FROM execution
WHERE provider = :provider AND instance_id = :instance_id AND "group" = :group AND {unindexed}state = :state
    AND number < :before
ORDER BY number DESC LIMIT :limit;

-- name: resolution_resume
-- Where to go on after a place in the log. Numbers are given again when the store goes back in time: a place of an
-- epoch before is as far as what that epoch has left here; one of an epoch that never was here is the beginning.
SELECT CASE
    WHEN :epoch > (SELECT MAX(number) FROM epoch) THEN 0
    ELSE {least}(:number, COALESCE((
        SELECT number FROM resolution WHERE epoch <= :epoch ORDER BY epoch DESC, number DESC LIMIT 1), 0))
END AS number;

-- name: resolutions
SELECT * FROM resolution WHERE number > :after ORDER BY number LIMIT :limit;

-- name: resolutions_of_instance
SELECT * FROM resolution
WHERE provider = :provider AND instance_id = :instance_id AND number > :after
ORDER BY number LIMIT :limit;

-- name: resolutions_end
SELECT COALESCE(MAX(number), 0) AS number FROM resolution;

-- name: resolutions_end_of_instance
SELECT COALESCE(MAX(number), 0) AS number FROM resolution WHERE provider = :provider AND instance_id = :instance_id;

-- name: prune_resolutions
-- The first of the log only, whatever their times: a step costs the same when nothing is old.
DELETE FROM resolution WHERE number IN (
    SELECT number FROM (SELECT number, at FROM resolution ORDER BY number LIMIT :limit) AS first WHERE at <= :before
);

-- name: numbering_key
SELECT key FROM numbering;
