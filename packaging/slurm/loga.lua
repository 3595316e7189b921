-- SPDX-License-Identifier: GPL-2.0
--
-- Chooses the node and the GPU of a job that asks for shards, or for a GPU, when it is submitted,
-- from the table that `loga slurm table` writes. Called from the site's job_submit.lua:
--
--     local loga = dofile("/etc/slurm/loga.lua")
--     ... loga.place(job_desc, part_list, submit_uid) ...
--
-- It runs inside slurmctld: it reads one file of bounded size and nothing else, asks no other
-- program, and leaves a job alone whenever something is missing, old, unusual or wrong. A job's
-- texts are compared and matched, never executed. Lua 5.1, as Slurm is built with.
--
-- Lua cannot tell the owner of a file: the folder of the table has to be one that only root or
-- the user of slurmctld can write.

-- Reads loga_table.lua beside this file.
local folder = debug.getinfo(1, "S").source:match("^@(.*/)") or ""
local tables = dofile(folder .. "loga_table.lua")

local loga = {
	-- The table.
	path = "/run/loga-slurm/table",
	-- A table that is older, in seconds, is not used.
	max_age = 30,
	-- How long a choice counts as load, in seconds: the table shows it by then.
	claim = 60,
	-- How long it counts before Slurm shows its job, in seconds: Slurm may refuse the job after this
	-- script has run, and shows one that was submitted in the same second a second later or more.
	confirm = 10,
	-- Jobs that wait for longer than this, in seconds, make the queue a long one.
	patience = 60,
}

-- Rows without room that are looked at, best first.
local MAX_LOOKED = 1000
local MAX_CLAIMS = 4096
-- Choices of a user, of the last `claim` seconds, whose jobs Slurm has not shown.
local MAX_UNSEEN = 32
local MAX_JOBS = 10000
local MAX_TEXT = 4096
-- What a newcomer of which nothing is known is taken to add: half a GPU.
local CLAIMED = 0.5
-- More shards than any GPU has: all of a GPU.
local WHOLE = 1e9

-- The mark of a choice in the AdminComment of its job: node, GPU, time and number.
local MARK = "loga: chose ([%w%.%-_]+) g(%d+) %((%d+)%-(%d+)%)"

-- Choices of the last `claim` seconds. They live as long as the controller's process has this script
-- loaded; those of another controller, or of this one before it started, are in the records of their
-- jobs.
local claims = {}
-- The number of the next choice. A script that is loaded anew goes on from the time of the processor that
-- its process has used, in microseconds: two choices of one second have two marks also then.
local serial = math.floor(os.clock() * 1e6)
local complained = 0
-- Jobs since the last report, by what became of them, and when that was.
local outcomes, reported = {}, nil

-- A number from the API that is set: unset ones are the largest of `bits` bits, or one less.
local function number(value, bits)
	if type(value) ~= "number" or value ~= value or value < 0 or value >= 2 ^ (bits or 32) - 2 then
		return nil
	end
	return value
end

local function text(value)
	if type(value) == "string" and value ~= "" then
		return value
	end
	return nil
end

-- What a job asks for on a node, if that is shards or GPUs of no type: how many, of what, and the
-- text before the number.
local function wanted(asked)
	if #asked > 64 then
		return nil
	end
	local prefix, kind, count = asked:match("^(gres[:/](%l+)):?(%d*)$")
	if not prefix or (kind ~= "shard" and kind ~= "gpu") or #count > 4 then
		return nil
	end
	count = count == "" and 1 or tonumber(count)
	if count < 1 then
		return nil
	end
	return count, kind, prefix
end

-- What the job needs on one node, or nothing and why it is left alone.
local function needs(job)
	local asked = text(job.tres_per_node)
	if not asked then
		return nil, "no GPU"
	end
	local count, kind, prefix = wanted(asked)
	if not count or (kind == "gpu" and count > 1) then
		return nil, "not plainly shards or one GPU"
	end
	-- A list of nodes may be at odds with each of these.
	for _, field in ipairs({
		"req_nodes", "exc_nodes", "features", "reservation", "array_inx", "dependency",
		"tres_per_job", "tres_per_socket", "tres_per_task", "clusters", "burst_buffer",
		-- CPUs and memory that we do not add up.
		"cpus_per_tres", "mem_per_tres",
	}) do
		if text(job[field]) then
			return nil, field
		end
	end
	if (number(job.min_nodes) or 1) > 1 then
		return nil, "several nodes"
	end
	-- 1 is --oversubscribe; the others want a node without jobs of others, which the table does not show.
	if (number(job.shared, 16) or 1) ~= 1 then
		return nil, "exclusive"
	end
	if (number(job.begin_time) or 0) > 0 or number(job.priority) == 0 then
		return nil, "not to start now"
	end
	if number(job.het_job_offset) then
		return nil, "a part of a job"
	end
	local cpus = math.max(number(job.min_cpus) or 1,
		(number(job.num_tasks) or 1) * (number(job.cpus_per_task, 16) or 1))
	local memory = number(job.min_mem_per_node) or (number(job.min_mem_per_cpu) or 0) * cpus
	return { kind = kind, count = count, prefix = prefix, cpus = cpus, memory = memory }
end

-- The partition of the job: its name and its nodes.
local function partition_of(job, part_list)
	local name = text(job.partition)
	for key, part in pairs(part_list) do
		if name == nil and part.flag_default == 1 or name ~= nil and key == name then
			local nodes = text(part.nodes)
			if nodes and #nodes <= MAX_TEXT then
				return key, nodes
			end
		end
	end
	return nil
end

-- Adds what a job that runs has on a node: by "node gpu", or by node if Slurm does not say the GPU.
local function add_used(used, node, job, asked)
	local given = text(job.gres_used) or asked
	local said = false
	for kind, gpu, count in given:sub(1, MAX_TEXT):gmatch("(%l+):g(%d+):(%d+)") do
		said = said or kind == "gpu" or kind == "shard"
		local shards = kind == "shard" and tonumber(count) or kind == "gpu" and tonumber(count) * WHOLE
		if shards then
			local key = node .. " " .. gpu
			used[key] = (used[key] or 0) + shards
		end
	end
	local count, kind = wanted(asked)
	if count and not said then
		used[node] = (used[node] or 0) + (kind == "shard" and count or 0)
	end
end

-- The jobs of Slurm: the choices by their marks, and whether each job waits or runs; and the ones that
-- run somewhere. Or nothing and why, if jobs that want the same kind wait in this partition for longer than the
-- patience.
local function jobs_of(partition, kind, now)
	local marks, running, count = {}, {}, 0
	for _, job in pairs(slurm.jobs or {}) do
		count = count + 1
		if count > MAX_JOBS then
			return nil, "too many jobs"
		end
		local asked = text(job.tres_per_node)
		-- Flags, such as those of a Prolog that runs, are above.
		local state = (number(job.job_state) or 0) % 256
		if asked and #asked <= 64 then
			local since = now - (number(job.submit_time) or now)
			-- Jobs that are older have no choice that counts. Each field takes Slurm a moment.
			local comment = since <= loga.claim and text(job.admin_comment)
			local on, gpu, time, nth
			if comment then
				on, gpu, time, nth = comment:sub(1, MAX_TEXT):match(MARK)
			end
			local mark = on and time .. "-" .. nth
			if mark then
				marks[mark] = {
					lives = state <= 1, node = on, key = on .. " " .. gpu, time = tonumber(time), asked = asked,
				}
			end
			local node = state == 1 and text(job.nodes)
			if node then
				running[#running + 1] = { node = node, job = job, asked = asked, mark = mark }
			end
			if state == 0 and since > loga.patience and number(job.priority) ~= 0 and
				asked:match("^gres[:/](%l+)") == kind then
				for name in (text(job.partition) or ""):gmatch("[^,]+") do
					if name == partition then
						return nil, "a long queue"
					end
				end
			end
		end
	end
	return marks, running
end

-- Whether a choice counts as load, by the marks of the jobs that there are. One whose job Slurm has
-- refused, or which has ended, does not.
local function counts(claim, marks, now)
	local job = marks[claim.mark]
	if job then
		claim.seen = true
		return job.lives
	end
	-- A Slurm that shows no jobs shows no ends.
	return not slurm.jobs or (not claim.seen and now - claim.time < loga.confirm)
end

-- Takes on the choices of a controller before this one: those of jobs that live and are not known
-- here. Their CPUs and memory are in the next table.
local function adopt(marks)
	local known = {}
	for _, claim in ipairs(claims) do
		known[claim.mark] = true
	end
	for mark, job in pairs(marks) do
		if job.lives and not known[mark] and #claims < MAX_CLAIMS then
			local kind, count = job.asked:match("^gres[:/](%l+):g%d+:(%d+)$")
			claims[#claims + 1] = {
				time = job.time, mark = mark, seen = true, node = job.node, key = job.key,
				shards = kind == "shard" and tonumber(count) or WHOLE, cpus = 0, memory = 0,
			}
		end
	end
end

-- Adds up the choices of the last seconds, and forgets older ones. Also how many of this user Slurm
-- has not shown.
local function claimed(now, marks, user)
	adopt(marks)
	local kept, sums, active, unseen = {}, {}, {}, 0
	for _, claim in ipairs(claims) do
		-- A clock that was set back must not keep a claim for ever.
		if now - claim.time < loga.claim and now >= claim.time then
			kept[#kept + 1] = claim
			if counts(claim, marks, now) then
				active[claim.mark] = true
				for _, key in ipairs({ claim.key, claim.node }) do
					local sum = sums[key] or { count = 0, shards = 0, cpus = 0, memory = 0 }
					sum.count = sum.count + 1
					sum.shards = sum.shards + claim.shards
					sum.cpus = sum.cpus + claim.cpus
					sum.memory = sum.memory + claim.memory
					sums[key] = sum
				end
			end
			if claim.user == user and not claim.seen then
				unseen = unseen + 1
			end
		end
	end
	claims = kept
	return sums, active, unseen
end

local NOTHING = { count = 0, shards = 0, cpus = 0, memory = 0 }

-- Whether a row has room, by the shards that are taken there.
local function has_room(row, age, need, taken, on_node)
	local shards = need.kind == "shard" and taken + need.count <= row.shards
	local whole = need.kind == "gpu" and taken == 0
	return (shards or whole) and row.age + age <= loga.max_age
		and on_node.cpus + need.cpus <= row.cpus
		and on_node.memory + need.memory <= row.memory
end

-- The row of the least expected slowdown that has room, in a table whose best rows come first.
local function choose(rows, age, need, nodes, used, sums)
	local best, least, at, looked, last = nil, nil, 0, 0, 0
	while looked < MAX_LOOKED do
		local node
		at, node = tables.next(rows, nodes, at)
		if not at then
			break
		end
		local row = tables.row(rows, at)
		if row then
			if row.slowdown < last then
				error("the table is not in order")
			end
			last = row.slowdown
			if least and row.slowdown >= least then
				break
			end
			looked = looked + 1
			local on_gpu = sums[row.key] or NOTHING
			local taken = (used[row.key] or 0) + (used[node] or 0) + on_gpu.shards
			local cost = row.slowdown + CLAIMED * on_gpu.count
			if has_room(row, age, need, taken, sums[node] or NOTHING) and (not least or cost < least) then
				best, least = row, cost
			end
		end
	end
	return best
end

-- Binds the job to a row, with a mark by which its record is known. All or nothing.
local function bind(job, need, row, mark)
	local asked, noted = job.tres_per_node, text(job.admin_comment)
	local text_of = string.format("loga: chose %s g%d (%s)", row.node, row.gpu, mark)
	local set = pcall(function()
		job.tres_per_node = string.format("%s:g%d:%d", need.prefix, row.gpu, need.count)
		job.admin_comment = noted and noted .. "; " .. text_of or text_of
		job.req_nodes = row.node
	end)
	if not set then
		job.tres_per_node = asked
		pcall(function() job.admin_comment = noted end)
		error("the job's nodes cannot be set")
	end
end

local function place(job, part_list, user)
	local need, why = needs(job)
	if not need then
		return nil, why
	end
	local now = os.time()
	local rows, missing, age = tables.read(loga.path, loga.max_age, now)
	if not rows then
		return nil, missing
	end
	local partition, nodes = partition_of(job, part_list)
	if not partition then
		return nil, "no single partition"
	end
	local marks, running = jobs_of(partition, need.kind, now)
	if not marks then
		return nil, running
	end
	local sums, active, unseen = claimed(now, marks, user)
	if #claims >= MAX_CLAIMS or unseen >= MAX_UNSEEN then
		return nil, "too many claims"
	end
	local used = {}
	for _, other in ipairs(running) do
		-- The others are claims.
		if not active[other.mark] then
			add_used(used, other.node, other.job, other.asked)
		end
	end
	local row = choose(rows, math.max(age, 0), need, tables.list(nodes), used, sums)
	if not row then
		return nil, "no GPU with room"
	end
	local mark = string.format("%d-%d", now, serial)
	serial = serial + 1
	bind(job, need, row, mark)
	claims[#claims + 1] = {
		time = now, user = user, mark = mark, seen = false, node = row.node, key = row.key,
		shards = need.kind == "shard" and need.count or WHOLE, cpus = need.cpus, memory = need.memory,
	}
	return row
end

-- Says what is wrong, at most once a minute.
local function complain(what)
	local now = os.time()
	if now - complained >= 60 or now < complained then
		complained = now
		slurm.log_error("%s", "loga: " .. tostring(what):sub(1, 200))
	end
end

-- Says once a minute how many jobs were placed, and why others were left alone.
local function report()
	local now = os.time()
	reported = reported or now
	if now - reported < 60 and now >= reported then
		return
	end
	local said = {}
	for outcome, count in pairs(outcomes) do
		said[#said + 1] = count .. " " .. outcome
	end
	table.sort(said)
	if #said > 0 then
		slurm.log_info("%s", "loga: in " .. now - reported .. " s: " .. table.concat(said, ", "))
	end
	outcomes, reported = {}, now
end

-- Counts what became of a job. There are some twenty outcomes.
local function count(outcome)
	-- Jobs without GPUs are none of ours.
	if outcome ~= "left alone (no GPU)" then
		outcomes[outcome] = (outcomes[outcome] or 0) + 1
	end
	report()
end

-- Places a job, or leaves it as it is. The node and the number of the GPU, or nothing and why.
function loga.place(job_desc, part_list, submit_uid)
	local ran, row, why = pcall(place, job_desc, part_list, submit_uid)
	if not ran then
		pcall(complain, row)
		row, why = nil, "error"
	end
	pcall(count, row and "placed" or "left alone (" .. why .. ")")
	if not row then
		return nil, why
	end
	return row.node, row.gpu
end

return loga
