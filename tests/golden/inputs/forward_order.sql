-- The host's order in the last step's forward pass: U0 is the unshard (all-gather) of layers.0, R0 its reshard.
WITH forward AS (SELECT ts AS start, ts + dur AS end FROM phase WHERE name = 'forward' ORDER BY ts DESC LIMIT 1),
     units AS (SELECT id, substr(name, 8) AS layer FROM unit WHERE name LIKE 'layers.%')
SELECT group_concat(op, ' ') AS forward FROM (
  SELECT issue AS at, 'U' || layer AS op FROM device_op JOIN units ON units.id = unit
   WHERE collective = 'all_gather' AND issue BETWEEN (SELECT start FROM forward) AND (SELECT end FROM forward)
  UNION ALL
  SELECT min(ts), 'R' || layer FROM allocator_event JOIN block ON block.id = block JOIN units ON units.id = unit
   WHERE action = 'free_requested' AND category = 'unsharded_parameters'
     AND ts BETWEEN (SELECT start FROM forward) AND (SELECT end FROM forward) GROUP BY layer
  ORDER BY at)
