BEGIN TRANSACTION;
CREATE TABLE about (
	"key" VARCHAR NOT NULL, 
	value VARCHAR NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "about" VALUES('version','3');
CREATE TABLE entries (
	seq INTEGER NOT NULL, 
	text TEXT NOT NULL, 
	hash VARCHAR NOT NULL, 
	PRIMARY KEY (seq), 
	UNIQUE (hash)
);
INSERT INTO "entries" VALUES(1,'{"at":"2025-03-03T10:30:00.000000+00:00","body":{"ledger":"f24906477a724ce49b5622f266859183"},"by":"ann","kind":"made","previous":"0000000000000000000000000000000000000000000000000000000000000000","seq":1,"software":"0.8.0"}','5c925c1d9802d47a6adaabbf5cff38791e382c9312bcc6ef9ef4d079ace2f4f5');
INSERT INTO "entries" VALUES(2,'{"at":"2025-03-03T10:30:00.000000+00:00","body":{"terms":{"budget":{"delta":0.0,"epsilon":1.0},"design":{"kind":"poisson","rate":0.1},"frame":{"categories":{"sex":["female","male"]},"size":200,"table":"/srv/office/lfs/register.csv","unit":"id"},"name":"lfs","setting":{"given":null,"neighbours":"add-remove","protect":"frame"}}},"by":"ann","kind":"opened","previous":"5c925c1d9802d47a6adaabbf5cff38791e382c9312bcc6ef9ef4d079ace2f4f5","seq":2,"software":"0.8.0"}','742ed657c07c72e3ca949507c53014ea222ec9adb3506a74433e5c907e130e0f');
INSERT INTO "entries" VALUES(3,'{"at":"2025-03-03T10:30:00.000000+00:00","body":{"fingerprint":"634f68b45b2615bde917d97e51bf33437659eda99c127627bf88a454aa1ccc81"},"by":"ann","kind":"checked","previous":"742ed657c07c72e3ca949507c53014ea222ec9adb3506a74433e5c907e130e0f","seq":3,"software":"0.8.0"}','f63cd4ecdfb46e7d00c1ceab11e94ceacf9411ca964d6f4db894d462a2f77a7e');
INSERT INTO "entries" VALUES(4,'{"at":"2025-03-03T10:30:00.000000+00:00","body":{"sample":"4de6d3cdeb13465e98f56c824091d390","state":"drawn","survey":"lfs"},"by":"ann","kind":"sample","previous":"f63cd4ecdfb46e7d00c1ceab11e94ceacf9411ca964d6f4db894d462a2f77a7e","seq":4,"software":"0.8.0"}','dbf9448eab19402190a431bb50448bd638c76514679c180440676fd7ffeb1533');
INSERT INTO "entries" VALUES(5,'{"at":"2025-03-03T10:30:00.000000+00:00","body":{"charges":[{"asked":[{"bounds":[0.0,100.0],"by":["sex"],"kind":"mean","of":"income"}],"profile":{"curve":{"delta":0.0,"epsilon":0.725119274471621,"kind":"approximate"},"relation":"add-remove"}}],"fingerprint":"4d41d42a551d186f0d5ee1bf4366e95e7dc886f3bde4197abe2e222d16b673f2","release":"373725d718584bf9ae4e0eb3d4db103c","sample":"4de6d3cdeb13465e98f56c824091d390","survey":"lfs"},"by":"ann","kind":"reserved","previous":"dbf9448eab19402190a431bb50448bd638c76514679c180440676fd7ffeb1533","seq":5,"software":"0.8.0"}','a5b258e7a8308966fb28a5a730f8d68695125355422184b4e0a38110e04639fa');
INSERT INTO "entries" VALUES(6,'{"at":"2025-03-03T10:30:00.000000+00:00","body":{"release":"373725d718584bf9ae4e0eb3d4db103c","release_hash":"71cee0133d61a230b425e184b18675b8aa05c16d271232402e3c0f0d18a2c7a8"},"by":"ann","kind":"committed","previous":"a5b258e7a8308966fb28a5a730f8d68695125355422184b4e0a38110e04639fa","seq":6,"software":"0.8.0"}','f902347ac14d2178e1483eb554ce0f37492d0294c1fe5c60d547db2c59c050f3');
CREATE TABLE files (
	sample VARCHAR NOT NULL, 
	path VARCHAR NOT NULL, 
	"key" VARCHAR NOT NULL, 
	PRIMARY KEY (sample)
);
CREATE TRIGGER no_update BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'entries are added, never changed'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'entries are added, never changed'); END;
CREATE TRIGGER no_replace BEFORE INSERT ON entries WHEN NEW.seq <= (SELECT max(seq) FROM entries) BEGIN SELECT RAISE(ABORT, 'entries are added, never changed'); END;
COMMIT;
